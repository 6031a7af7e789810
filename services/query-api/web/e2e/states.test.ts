/** What needs certain data: large graphs and traces, loops, jobs that run, errors. Made-up service only. */

import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { expectAccessible, launch, newPage, shot } from './browser';

const RUNNING = 'local-1795249999001';
const FLIGHTS = 'local-1795249994956';
const PAGERANK = 'local-1795241200417';
const INCOMPLETE = 'local-1795230011220';
const CLICKS = 'local-1795199000777';
const GENERATED = 'local-1795180000005';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe.skipIf(process.env.LINEAGE_URL !== undefined)('over made-up data', () => {
  let page: Page;
  let complaints: string[];
  beforeEach(async () => {
    ({ page, complaints } = await newPage(browser));
  });
  afterEach(() => page.context().close());

  const answer = (status: number, body: object) => ({
    status,
    contentType: 'application/problem+json',
    headers: { 'X-Request-Id': 'r-e2e' },
    body: JSON.stringify(body),
  });

  it('a graph of 5,000 nodes is drawn soon and stays usable', async () => {
    const times: number[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      await page.goto(`/apps/${GENERATED}`, { waitUntil: 'commit' });
      await page.locator('.operator-button').first().waitFor();
      times.push(
        await page.evaluate(() => {
          const graph = performance
            .getEntriesByType('resource')
            .find((entry) => entry.name.includes('/graph'));
          return (
            performance.now() - ((graph as PerformanceResourceTiming | undefined)?.responseEnd ?? 0)
          );
        }),
      );
    }
    console.log(
      `5,000 nodes: ${times.map(Math.round).join(', ')} ms from the answer to the drawing`,
    );
    expect(Math.min(...times)).toBeLessThan(2000);
    expect(await page.locator('.operator-button').count()).toBeLessThan(400);
    await page.getByLabel('Find a node').fill('generated.py:500');
    await page.keyboard.press('Enter');
    await page.locator('.operator-button[aria-pressed="true"]').waitFor();
    await page.getByText('This node keeps no rows of its own.').waitFor();
    await shot(page, 'large-graph');
    await expectAccessible(page);
    expect(complaints).toEqual([]);
  });

  it('a million witnesses are counted first and paged after', async () => {
    await page.goto(`/apps/${CLICKS}?node=1`);
    await page.locator('.items-row').first().click();
    await page.getByText('1,000,000 items in 1 node').waitFor();
    const list = page.locator('.items-scroller');
    for (let turn = 0; turn < 20; turn += 1) {
      await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
      await page.waitForTimeout(60);
    }
    await expect
      .poll(() => page.getByText(/of 1,000,000 loaded/).innerText())
      .toMatch(/^\d,\d{3} of/);
    expect(await page.locator('.items-row').count()).toBeLessThan(80);
    await shot(page, 'million');
    expect(complaints).toEqual([]);
  });

  it('a search that has to look at many rows goes on by itself, then asks', async () => {
    await page.goto(`/apps/${CLICKS}?node=0&q=nobody`);
    await page.getByText('Nothing with “nobody” so far.').waitFor();
    await page.getByRole('button', { name: 'Search on' }).click();
    await page.getByText('Nothing with “nobody” so far.').waitFor();
  });

  it('loops unfold and fold', async () => {
    await page.goto(`/apps/${PAGERANK}`);
    await page.locator('.operator-button').first().waitFor();
    await page.getByRole('button', { name: 'Fit View' }).click();
    expect(await page.locator('.canvas').getAttribute('data-nodes')).toBe('14');
    await shot(page, 'loop-folded');
    await page
      .getByRole('button', { name: /turns of reduceByKey: unfold/ })
      .first()
      .click();
    await expect.poll(() => page.locator('.canvas').getAttribute('data-nodes')).toBe('77');
    expect(page.url()).toContain('unfold=');
    await shot(page, 'loop-unfolded');
    await page.getByLabel('Find a node').fill('mapValues');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Fold the loop' }).click();
    await expect.poll(() => page.locator('.canvas').getAttribute('data-nodes')).toBe('14');
    expect(complaints).toEqual([]);
  });

  it('a trace through a loop lists its turns', async () => {
    await page.goto(`/apps/${PAGERANK}?node=76`);
    await page.locator('.items-row').first().click();
    await page.locator('.trace-count').waitFor();
    await page.getByLabel('Find a node').fill('reduce side');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByLabel('Turn of the loop').waitFor();
    await shot(page, 'loop-traced');
    await expectAccessible(page);
  });

  it('an incomplete application says why', async () => {
    await page.goto(`/apps/${INCOMPLETE}`);
    await page.getByText('4 of 61 blocks are missing').first().waitFor();
    await shot(page, 'incomplete');
    await expectAccessible(page);
    await page.goto(`/apps/${INCOMPLETE}?node=5`);
    await page.locator('.items-row').first().click();
    await page.getByText(/^Incomplete: lineage is missing/).waitFor();
    await page.getByText(/^Not exact/).waitFor();
  });

  it('a running application shows how far it is', async () => {
    await page.goto(`/apps/${RUNNING}`);
    const live = page.getByRole('region', { name: 'Progress' });
    await live.waitFor();
    const before = await live.innerText();
    await expect.poll(() => live.innerText(), { timeout: 15_000 }).not.toBe(before);
    await expectAccessible(page);
    await shot(page, 'running');
  });

  it('asks for a token where the server does, and says when it is refused', async () => {
    let refused = 0;
    await page.route('**/v1/**', (route) => {
      if (route.request().headers().authorization === 'Bearer right') return route.continue();
      refused += 1;
      return route.fulfill(answer(401, { title: 'Not logged in', detail: 'Send a token.' }));
    });
    await page.goto('/');
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await expectAccessible(page);
    await shot(page, 'sign-in');
    expect(refused).toBeLessThan(4);
    await page.getByLabel('Token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('The server refused this token.').waitFor();
    await page.getByLabel('Token').fill('right');
    await page.keyboard.press('Enter');
    await page.locator('.app-link').first().waitFor();
    expect(await page.evaluate(() => sessionStorage.getItem('lineage.token'))).toBe('right');
    await page.reload();
    await page.locator('.app-link').first().waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  it('says what to do when there is no application', async () => {
    await page.route('**/v1/applications?**', (route) =>
      route.fulfill({ json: { items: [], next: null, total: 0 } }),
    );
    await page.goto('/');
    await page.getByText('lineage run job.py').waitFor();
    await expectAccessible(page);
    await shot(page, 'empty');
  });

  it('shows what the server says of an error', async () => {
    await page.goto('/apps/local-0');
    await page.getByText('No application is called local-0.').waitFor();
    await page.getByText('lineage apps lists those that there are.').waitFor();
    await page.getByText(/^r-/).waitFor();
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

  it('says when rows may not be seen', async () => {
    await page.route('**/v1/applications/*/rows?**', (route) =>
      route.fulfill(answer(403, { title: 'Forbidden', detail: 'No right to see rows.' })),
    );
    await page.goto(`/apps/${FLIGHTS}?node=0&row=${encodeURIComponent('read#0#6')}`);
    await page.getByText('You may trace rows, but not see what they say.').waitFor();
    await expectAccessible(page);
  });

  it('opens a trace by its own address, and short names of applications', async () => {
    const response = await page.request.post(`/v1/applications/${FLIGHTS}/traces`, {
      data: { direction: 'backward', start: { places: ['write#0#0'] }, until: 'ends', steps: null },
    });
    const { trace } = (await response.json()) as { trace: string };
    await page.goto(`/traces/${trace}`);
    await page.waitForURL(new RegExp(`/apps/${FLIGHTS}\\?trace=`));
    await page.goto(`/apps/${FLIGHTS.slice(0, -3)}`);
    await page.waitForURL(new RegExp(`/apps/${FLIGHTS}$`));
    await page.goto('/no/such/page');
    await page.getByText('There is no page here.').waitFor();
  });

  it('exports a trace', async () => {
    await page.goto(`/apps/${FLIGHTS}?node=5`);
    await page.locator('.items-row').first().click();
    await page.locator('.trace-count').waitFor();
    const saved = page.waitForEvent('download');
    await page.getByLabel('Export').selectOption('csv');
    expect((await saved).suggestedFilename()).toBe(`${FLIGHTS}-backward.csv`);
  });

  it('fits a narrow window', async () => {
    await page.setViewportSize({ width: 700, height: 900 });
    await page.goto(`/apps/${FLIGHTS}?node=5`);
    await page.locator('.items-row').first().waitFor();
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    expect(overflow).toBeLessThanOrEqual(0);
    await shot(page, 'narrow');
  });
});
