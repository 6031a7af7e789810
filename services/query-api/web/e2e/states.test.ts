/** Errors, empty pages, rights, and what a page is left by: over any service with a complete application. */

import { readFileSync } from 'node:fs';

import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import {
  READER_TOKEN,
  TOKEN,
  application,
  expectAccessible,
  isMock,
  launch,
  newPage,
  shot,
} from './browser';

/** An application that may be deleted: its id. */
const DOOMED = process.env.LINEAGE_E2E_DOOMED ?? (isMock() ? 'local-1795100000000' : undefined);

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

const problem = (status: number, body: object) => ({
  status,
  contentType: 'application/problem+json',
  headers: { 'X-Request-Id': 'r-e2e' },
  body: JSON.stringify(body),
});

describe('the page', () => {
  let page: Page;
  let complaints: string[];
  beforeEach(async () => {
    ({ page, complaints } = await newPage(browser));
  });
  afterEach(() => page.context().close());

  const rows = () => page.locator('.items-row');

  it('asks for a token where the server does, and says when it is refused', async () => {
    const right = TOKEN ?? 'right';
    const { page: stranger } = await newPage(browser, 'light', '');
    if (TOKEN === undefined) {
      await stranger.route('**/v1/**', (route) =>
        route.request().headers().authorization === `Bearer ${right}`
          ? route.continue()
          : route.fulfill(problem(401, { title: 'Unauthorized', detail: 'Send a token.' })),
      );
    }
    let asked = 0;
    stranger.on('request', (request) => (asked += Number(request.url().includes('/v1/'))));
    await stranger.goto('/');
    await stranger.getByRole('heading', { name: 'Sign in' }).waitFor();
    await expectAccessible(stranger);
    await shot(stranger, 'sign-in');
    expect(asked).toBeLessThan(4);
    await stranger.getByLabel('Token').fill('wrong');
    await stranger.keyboard.press('Enter');
    await stranger.getByText('The server refused this token.').waitFor();
    await stranger.getByLabel('Token').fill(right);
    await stranger.keyboard.press('Enter');
    await stranger.locator('.app-link').first().waitFor();
    expect(await stranger.evaluate(() => sessionStorage.getItem('lineage.token'))).toBe(right);
    await stranger.reload();
    await stranger.locator('.app-link').first().waitFor();
    await stranger.getByRole('button', { name: 'Sign out' }).click();
    await stranger.getByRole('heading', { name: 'Sign in' }).waitFor();
    await stranger.context().close();
  });

  it('says what to do when there is no application', async () => {
    await page.route('**/v1/applications?**', (route) =>
      route.fulfill({ json: { items: [], next: null, total: 0 } }),
    );
    await page.goto('/');
    await page.getByText(/^lineage .*run job\.py$/).waitFor();
    await expectAccessible(page);
    await shot(page, 'empty');
  });

  it('shows what the server says of an error', async () => {
    await page.goto('/apps/local-0');
    const notice = page.getByRole('alert');
    await notice.getByText(/application .*local-0/).waitFor();
    await notice.getByText('lineage apps').waitFor();
    await notice.getByText(/^Request /).waitFor();
    await expectAccessible(page);
    await shot(page, 'error');
  });

  it('says when the server does not answer, and tries again', async () => {
    await page.route('**/v1/applications?**', (route) => route.abort());
    await page.goto('/');
    await page.getByText('The server does not answer').waitFor({ timeout: 20_000 });
    await page.unroute('**/v1/applications?**');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.locator('.app-link').first().waitFor();
  });

  it('keeps what rows say from those who may not see it', async () => {
    const { app, sources } = await application(page);
    const { page: reader } = await newPage(browser, 'light', READER_TOKEN ?? TOKEN);
    if (READER_TOKEN === undefined) {
      await reader.route('**/v1/applications/*/rows?**', (route) =>
        route.fulfill(problem(403, { title: 'Forbidden', detail: 'Rows are not for you.' })),
      );
    }
    const row = encodeURIComponent(`${sources[0]?.label ?? ''}#0#6`);
    await reader.goto(`/apps/${app}?node=${sources[0]?.node ?? ''}&row=${row}`);
    await reader.getByText('You may trace rows, but not see what they say.').waitFor();
    await expectAccessible(reader);
    await reader.context().close();
  });

  it('opens a trace by its own address, and short names of applications', async () => {
    const { app, sinks } = await application(page);
    await page.goto(`/apps/${app}?node=${sinks[0]?.node ?? ''}`);
    await rows().first().click();
    await page.waitForURL(/trace=/);
    const trace = new URL(page.url()).searchParams.get('trace') ?? '';
    await page.goto(`/traces/${trace}`);
    await page.waitForURL(new RegExp(`/apps/${app}\\?trace=`));
    await page.goto(`/apps/${app.slice(0, -3)}`);
    await page.waitForURL(new RegExp(`/apps/${app}$`));
    await page.goto('/no/such/page');
    await page.getByText('There is no page here.').waitFor();
  });

  it('exports a trace', async () => {
    const { app, sinks } = await application(page);
    await page.goto(`/apps/${app}?node=${sinks[0]?.node ?? ''}`);
    await rows().first().click();
    await page.locator('.trace-count').waitFor();
    const saving = page.waitForEvent('download');
    await page.getByLabel('Export').selectOption('csv');
    const saved = await saving;
    expect(saved.suggestedFilename()).toMatch(new RegExp(`${app}.*\\.csv$`));
    if (!isMock()) {
      const lines = readFileSync(await saved.path(), 'utf8')
        .trim()
        .split('\n');
      expect(lines.length).toBeGreaterThan(2);
    }
  });

  it.each([
    ['a narrow window', 390, 844],
    ['a zoom of 200 %', 640, 400],
  ])('fits %s', async (_, width, height) => {
    const { page: small } = await newPage(browser);
    await small.setViewportSize({ width, height });
    const expectItFits = async () => {
      const out = await small.evaluate(() =>
        [...document.querySelectorAll('header *, main *')]
          .filter((one) => one.closest('.canvas, .items-scroller, .hidden, thead') === null)
          .filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1)
          .map((one) => one.outerHTML.slice(0, 120)),
      );
      expect(out).toEqual([]);
      expect(await small.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      const letters = await small.evaluate(() =>
        [...document.querySelectorAll('body *')]
          .filter((one) => one.closest('.canvas') === null)
          .map((one) => Number.parseFloat(getComputedStyle(one).fontSize)),
      );
      expect(Math.min(...letters)).toBeGreaterThanOrEqual(11);
      await expectAccessible(small);
    };
    await small.goto('/');
    await small.locator('.app-link').first().waitFor();
    await expectItFits();
    const { app, sinks } = await application(small);
    await small.goto(`/apps/${app}`);
    await small.locator('.operator-button').first().waitFor();
    await expectItFits();
    // The first view holds an output, in letters that can be read.
    const output = small.locator('.operator:is([data-kind="sink"], [data-kind="frame"])').first();
    await output.waitFor();
    const box = await output.boundingBox();
    expect(box?.x).toBeGreaterThanOrEqual(0);
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(width);
    // A node is 166 px wide, and its smallest letters 13 px high.
    expect((13 * (box?.width ?? 0)) / 166).toBeGreaterThanOrEqual(11 - 0.01);
    // What is asked for comes into view, and has the focus.
    await small.locator('.ends button').first().click();
    await small.locator('.items-row').first().waitFor();
    await expect.poll(() => small.evaluate(() => document.activeElement?.tagName)).toBe('H2');
    await expectItFits();
    await small.locator('.items-row').first().click();
    await small.locator('.trace-count').waitFor();
    const heading = small.getByRole('heading', { name: 'Backward trace' });
    await expect.poll(() => heading.evaluate((it) => it === document.activeElement)).toBe(true);
    expect((await heading.boundingBox())?.y).toBeLessThan(height / 2);
    await expectItFits();
    await shot(small, `small-${width}`);
    expect(sinks.length).toBeGreaterThan(0);
    await small.context().close();
  });

  it('lists dead letters, or says that there is no pipeline', async () => {
    await page.goto('/');
    await page.getByRole('link', { name: 'Dead letters' }).click();
    if (isMock()) {
      await page.getByText('this reader knows 1 and 2').waitFor();
      await page.getByRole('button', { name: 'Copy replay command' }).first().click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
        'lineage dlq replay 0',
      );
    } else {
      await page.getByText('There is no pipeline here.').waitFor();
    }
    await expectAccessible(page);
    await shot(page, 'dead-letters');
  });

  it('lets a reader delete nothing', async () => {
    const { app } = await application(page);
    const { page: reader } = await newPage(browser, 'light', READER_TOKEN ?? TOKEN);
    if (READER_TOKEN === undefined) {
      await reader.route('**/v1/me', (route) =>
        route.fulfill({
          json: { name: 'bob', role: 'reader', rows: true, delete: false, auth: 'token' },
        }),
      );
    }
    await reader.goto(`/apps/${app}`);
    await reader.getByText('(reader').waitFor();
    await reader.locator('.operator-button').first().waitFor();
    expect(await reader.getByRole('button', { name: 'Delete…' }).count()).toBe(0);
    await reader.context().close();
  });

  it.runIf(DOOMED !== undefined)('deletes an application, after a question', async () => {
    await page.goto(`/apps/${DOOMED ?? ''}`);
    const remove = page.getByRole('button', { name: 'Delete…' });
    await remove.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Nobody can bring it back').waitFor();
    await expectAccessible(page);
    await shot(page, 'delete');
    await page.keyboard.press('Escape');
    await expect.poll(() => dialog.count()).toBe(0);
    await remove.click();
    await dialog.getByRole('button', { name: `Delete ${DOOMED ?? ''}` }).click();
    await page.waitForURL(({ pathname }) => pathname === '/');
    await page.locator('.app-link').first().waitFor();
    await expect.poll(() => page.getByText(DOOMED ?? '', { exact: true }).count()).toBe(0);
    expect(complaints).toEqual([]);
    await page.goto(`/apps/${DOOMED ?? ''}`);
    await page.getByRole('alert').waitFor();
  });
});
