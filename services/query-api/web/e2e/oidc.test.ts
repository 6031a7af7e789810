/** Signing in at an issuer, and attacks on it; over a service with an issuer that lets in whom one chooses. */

import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { baseUrl, expectAccessible, launch, newPage, shot } from './browser';

/** What discovery tells of the issuer. */
interface Issuer {
  issuer: string;
  token_endpoint: string;
}

const issuer = JSON.parse(process.env.LINEAGE_E2E_OIDC ?? '') as Issuer;
const LINK = '/apps/app-1?node=read#shared';
const KEYS = ['lineage.token', 'lineage.issued', 'lineage.sign-in'] as const;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe('signing in at the issuer', () => {
  let page: Page;
  let context: BrowserContext;
  /** Addresses that the page asked for or went to, and bodies that were sent to the issuer for tokens. */
  let addresses: string[];
  let grants: URLSearchParams[];

  const watched = async () => {
    const made = await newPage(browser, 'light', '');
    made.page.on('request', (request) => {
      addresses.push(request.url(), request.headers().referer ?? '');
      if (request.url() === issuer.token_endpoint) {
        grants.push(new URLSearchParams(request.postData() ?? ''));
      }
    });
    made.page.on('framenavigated', (frame) => addresses.push(frame.url()));
    return made.page;
  };
  beforeEach(async () => {
    addresses = [];
    grants = [];
    page = await watched();
    context = page.context();
  });
  afterEach(() => context.close());

  const button = (at: Page) => at.getByRole('button', { name: /^Sign in at 127\.0\.0\.1/ });
  const begin = async (at: Page, link = LINK) => {
    await at.goto(link);
    await button(at).click();
    await at.waitForURL(`${issuer.issuer}/authorize?**`);
  };
  const choose = (at: Page, user: string) =>
    at.getByRole('button', { name: user, exact: true }).click();
  const signedIn = (at: Page, user: string) => at.getByText(`${user} (`).waitFor();
  const kept = (at: Page) =>
    at.evaluate((names) => names.map((name) => sessionStorage.getItem(name)), KEYS);
  const returned = () => addresses.filter((one) => one.startsWith(`${baseUrl()}/sign-in?`));
  const failed = (at: Page, reason: string) =>
    at.getByRole('alert').getByText(`Signing in did not succeed. ${reason}`).waitFor();
  const asked = (at: Page) => new URL(at.url()).searchParams.get('state') ?? '';

  it('opens the very link that was shared, and leaves no token behind', async () => {
    await page.goto(LINK);
    await button(page).waitFor();
    await expectAccessible(page);
    await shot(page, 'sign-in-issuer');
    expect(addresses.filter((one) => one.startsWith(issuer.issuer))).toEqual([]);
    await begin(page);
    await choose(page, 'ann');
    await page.waitForURL(LINK);
    await signedIn(page, 'ann');
    expect(page.url()).toBe(baseUrl() + LINK);

    const [token = '', issued = '', pending] = await kept(page);
    const { refreshToken } = JSON.parse(issued ?? '') as { refreshToken: string };
    expect(pending).toBeNull();
    expect(grants.map((grant) => grant.get('grant_type'))).toEqual(['authorization_code']);
    const verifier = grants[0]?.get('code_verifier') ?? '';
    for (const secret of [token ?? '', refreshToken, verifier]) {
      expect(secret.length).toBeGreaterThan(40);
      expect(addresses.filter((one) => one.includes(secret))).toEqual([]);
    }
    expect(await page.evaluate(() => Object.keys(localStorage))).toEqual([]);
    expect(await context.cookies()).toEqual([]);
    // Back is the issuer, and on again the link: the address with the code is in no history.
    await page.goBack();
    expect(page.url()).toContain(`${issuer.issuer}/authorize?`);
    await page.goForward();
    await signedIn(page, 'ann');
    expect(page.url()).toBe(baseUrl() + LINK);
    expect(grants.length).toBe(1);
  });

  it('renews a token that is over, once for all requests that it fails', async () => {
    await begin(page);
    await choose(page, 'brief');
    await signedIn(page, 'brief');
    expect(page.url()).toBe(baseUrl() + LINK);
    expect(grants.map((grant) => grant.get('grant_type'))).toEqual([
      'authorization_code',
      'refresh_token',
    ]);
    // What was renewed is kept.
    await page.reload();
    await signedIn(page, 'brief');
    expect(grants.length).toBe(2);
  });

  it('asks to sign in again where a token can not be renewed, and comes back to the same link', async () => {
    await begin(page);
    await choose(page, 'gone');
    await page.getByText('The server refused this token.').waitFor();
    expect(page.url()).toBe(baseUrl() + LINK);
    expect(await kept(page)).toEqual([null, null, null]);
    await button(page).click();
    await choose(page, 'ann');
    await signedIn(page, 'ann');
    expect(page.url()).toBe(baseUrl() + LINK);
  });

  it('signs out, here and at the issuer', async () => {
    await begin(page);
    await choose(page, 'ann');
    await signedIn(page, 'ann');
    const [token, issued] = await kept(page);
    const { refreshToken } = JSON.parse(issued ?? '') as { refreshToken: string };
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL('/');
    await button(page).waitFor();
    expect(addresses.filter((one) => one.includes('/end-session?')).length).toBeGreaterThan(0);
    expect(await kept(page)).toEqual([null, null, null]);
    expect(addresses.filter((one) => one.includes(token ?? ''))).toEqual([]);
    const form = new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: 'lineage-page',
    });
    expect((await fetch(issuer.token_endpoint, { method: 'POST', body: form })).status).toBe(400);
  });

  it('says when the issuer lets nobody in', async () => {
    await begin(page);
    await choose(page, 'nobody');
    await failed(page, 'The issuer says: access_denied.');
    await expectAccessible(page);
    expect(page.url()).toBe(baseUrl() + LINK);
    expect(grants).toEqual([]);
  });

  it('refuses an answer with another state, without a request for tokens', async () => {
    await begin(page);
    const state = asked(page);
    for (const answer of ['code=x&state=wrong', 'code=x', `code=x&state=${state}&state=y`]) {
      await begin(page);
      const iss = encodeURIComponent(issuer.issuer);
      await page.goto(`/sign-in?${answer}&iss=${iss}`);
      await failed(page, 'What came back is not what this tab asked for.');
      expect(page.url()).toBe(baseUrl() + LINK);
      expect(await kept(page)).toEqual([null, null, null]);
    }
    expect(grants).toEqual([]);
  });

  it('refuses an answer of another issuer', async () => {
    for (const iss of ['', '&iss=https%3A%2F%2Fevil.example']) {
      await begin(page);
      await page.goto(`/sign-in?code=x&state=${asked(page)}${iss}`);
      await failed(page, 'What came back is not what this tab asked for.');
    }
    expect(grants).toEqual([]);
  });

  it('refuses an answer that this tab did not ask for, and shows no text of it', async () => {
    const text = 'call 555 1234';
    const query = new URLSearchParams({ error: text, error_description: text, state: 'x' });
    await page.goto(`/sign-in?${query.toString()}`);
    await failed(page, 'It was not begun in this tab, or is over already.');
    expect(await page.getByText(text).count()).toBe(0);
    expect(page.url()).toBe(`${baseUrl()}/`);
    expect(addresses.filter((one) => one.startsWith(issuer.issuer))).toEqual([]);
  });

  it('takes an answer once, and leaves who is signed in so', async () => {
    await begin(page);
    await choose(page, 'ann');
    await signedIn(page, 'ann');
    const before = await kept(page);
    const [answer = ''] = returned();
    expect(answer).toContain('code=');
    await page.goto(answer);
    await signedIn(page, 'ann');
    expect(page.url()).toBe(`${baseUrl()}/`);
    expect(await kept(page)).toEqual(before);
    expect(grants.length).toBe(1);
    // The code again, in an answer to another question of this browser.
    const other = await watched();
    await begin(other);
    const again = new URL(answer);
    again.searchParams.set('state', asked(other));
    await other.goto(again.href);
    await failed(other, 'The issuer says: invalid_grant.');
    expect(await kept(other)).toEqual([null, null, null]);
    expect(grants.length).toBe(2);
    await other.context().close();
  });

  it('gives nothing for a code that somebody took from the address', async () => {
    await begin(page);
    // It never reaches the tab that has the verifier.
    await page.route('**/sign-in?**', (route) => route.abort());
    await choose(page, 'ann');
    await expect.poll(returned).not.toEqual([]);
    const [answer = ''] = returned();
    const thief = await watched();
    await begin(thief);
    const taken = new URL(answer);
    taken.searchParams.set('state', asked(thief));
    await thief.goto(taken.href);
    await failed(thief, 'The issuer says: invalid_grant.');
    expect(await kept(thief)).toEqual([null, null, null]);
    await thief.context().close();
  });

  it('refuses an identity with another nonce', async () => {
    await begin(page);
    await choose(page, 'another-nonce');
    await failed(page, 'What came back is not what this tab asked for.');
    expect(await kept(page)).toEqual([null, null, null]);
  });

  it.each(['//evil.example/x', 'https://evil.example/', '/\\evil.example', 'javascript:alert(1)'])(
    'comes back to this server whatever was kept for a link: %s',
    async (link) => {
      await begin(page);
      const authorize = page.url();
      // Of this server, without the page.
      await page.goto('/favicon.svg');
      await page.evaluate(
        ([name, address]) => {
          const pending = JSON.parse(sessionStorage.getItem(name) ?? '') as object;
          sessionStorage.setItem(name, JSON.stringify({ ...pending, link: address }));
        },
        [KEYS[2], link] as const,
      );
      await page.goto(authorize);
      await choose(page, 'ann');
      await signedIn(page, 'ann');
      expect(new URL(page.url()).origin).toBe(baseUrl());
      expect(addresses.filter((one) => /^\w+:\/\/[^/]*evil/.test(one))).toEqual([]);
    },
  );

  it.each(['/sign-in?link=https://evil.example/', '/sign-in?redirect_uri=//evil.example'])(
    'goes nowhere that an address names: %s',
    async (link) => {
      await page.goto(link);
      await button(page).waitFor();
      expect(page.url()).toBe(`${baseUrl()}/`);
    },
  );

  it('comes back to this server from a path that looks like another one', async () => {
    await begin(page, `${baseUrl()}//evil.example/x?y=1`);
    await choose(page, 'ann');
    await signedIn(page, 'ann');
    const { origin, pathname } = new URL(page.url());
    expect(origin).toBe(baseUrl());
    expect(pathname).toMatch(/^\/+evil\.example\/x$/);
  });

  it('lets the page connect to the issuer and to nobody else', async () => {
    await page.goto(LINK);
    await button(page).waitFor();
    const refused = page.evaluate(
      () =>
        new Promise((resolve) => {
          document.addEventListener('securitypolicyviolation', (event) => {
            resolve(`${event.effectiveDirective} ${event.blockedURI}`);
          });
          fetch('http://127.0.0.1:9/').catch(() => undefined);
        }),
    );
    expect(await refused).toBe('connect-src http://127.0.0.1:9/');
  });
});
