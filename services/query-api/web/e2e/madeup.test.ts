/** What needs certain data: large graphs and traces, loops, jobs that run or failed. Made-up service only. */

import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { expectAccessible, launch, newPage, shot } from './browser';

const RUNNING = 'local-1795249999001';
const PAGERANK = 'local-1795241200417';
const INCOMPLETE = 'local-1795230011220';
const CLICKS = 'local-1795199000777';
const GENERATED = 'local-1795180000005';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe('over made-up data', () => {
  let page: Page;
  let complaints: string[];
  beforeEach(async () => {
    ({ page, complaints } = await newPage(browser));
  });
  afterEach(() => page.context().close());

  it('a graph of 5,000 nodes stays usable', async () => {
    await page.goto(`/apps/${GENERATED}`);
    await page.locator('.operator-button').first().waitFor();
    expect(await page.locator('.operator-button').count()).toBeLessThan(400);
    // The first view holds an output, in letters that can be read: a node is 166 px wide, its smallest letters are 13 px high.
    const output = page.locator('.operator[data-kind="sink"]').first();
    await output.waitFor();
    const box = await output.boundingBox();
    expect(box?.x).toBeGreaterThanOrEqual(0);
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(1440);
    expect((13 * (box?.width ?? 0)) / 166).toBeGreaterThanOrEqual(11 - 0.01);
    await page.getByLabel('Find a node').fill('generated.py:500');
    await page.keyboard.press('Enter');
    const chosen = page.locator('.operator-button[aria-pressed="true"]');
    await chosen.waitFor();
    const width = (await page.locator('.operator').first().boundingBox())?.width ?? 0;
    expect((13 * width) / 166).toBeGreaterThanOrEqual(11 - 0.01);
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
    const loaded = page.getByText(/of 1,000,000 loaded/);
    await expect
      .poll(async () => {
        await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
        return loaded.innerText();
      })
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
});
