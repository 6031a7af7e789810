/**
 * How soon a person sees something, each time in a fresh browser context: the first view of an application,
 * the first source row after a click on a row, and a large graph. Times are taken in the page, when what is
 * waited for has been painted; written as JSON to FIGURES.
 */

import { writeFileSync } from 'node:fs';

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { launch, newPage } from './browser';

const { FIGURES, LINEAGE_E2E_APP: APP = '', LARGE_APP = '', RUNS = '15' } = process.env;
const runs = Number(RUNS);
const GRAPH = '.operator-button';
const OWN_ROW = '.panel .items-row :is(.items-text, .items-value)';
const SOURCE_ROW = '.trace-body .items-row :is(.items-text, .items-value)';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

/** Notes when each of some things is first painted, and the last click; runs before the page does. */
function watch(selectors: string[]): void {
  const seen: Record<string, number> = {};
  Object.assign(window, { seen });
  const look = () => {
    for (const selector of selectors) {
      if (selector in seen || !document.querySelector(selector)?.textContent) continue;
      seen[selector] = NaN;
      // The frame after the one that holds it: then it is on the screen.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          seen[selector] = performance.now();
        }),
      );
    }
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
  document.addEventListener('click', () => (seen.click = performance.now()), { capture: true });
}

type Seen = Record<string, number>;

async function seen(page: Page, selector: string): Promise<Seen> {
  await page.waitForFunction(
    (it) => ((window as unknown as { seen: Seen }).seen[it] ?? NaN) > 0,
    selector,
  );
  return page.evaluate(() => (window as unknown as { seen: Seen }).seen);
}

async function fresh<T>(measure: (page: Page) => Promise<T>): Promise<T> {
  const { page, complaints } = await newPage(browser);
  await page.addInitScript(watch, [GRAPH, OWN_ROW, SOURCE_ROW]);
  const result = await measure(page);
  expect(complaints).toEqual([]);
  await page.context().close();
  return result;
}

async function firstView(app: string): Promise<{ ms: number; nodes: number }> {
  return fresh(async (page) => {
    await page.goto(`/apps/${app}`);
    const ms = (await seen(page, GRAPH))[GRAPH] ?? NaN;
    return { ms, nodes: Number(await page.locator('.canvas').getAttribute('data-nodes')) };
  });
}

/** From the click on the n-th row of the output that is listed first. */
async function firstSourceRow(app: string, index: number): Promise<{ ms: number; rows: number }> {
  return fresh(async (page) => {
    await page.goto(`/apps/${app}`);
    await page.locator('.ends button').first().click();
    await seen(page, OWN_ROW);
    const row = page.locator(`.items-row[data-index="${index}"]`);
    await row.scrollIntoViewIfNeeded();
    await row.click();
    const { click = NaN, [SOURCE_ROW]: shown = NaN } = await seen(page, SOURCE_ROW);
    const rows = await page.locator('.trace-count strong').innerText();
    return { ms: shown - click, rows: Number(rows.replaceAll(',', '')) };
  });
}

it('is measured', async () => {
  const each = <T>(measure: (run: number) => Promise<T>) =>
    Array.from({ length: runs }, (_, run) => run).reduce<Promise<T[]>>(
      async (before, run) => [...(await before), await measure(run)],
      Promise.resolve([]),
    );
  // Once unmeasured: the browser's own start and the server's first look into its store.
  await firstView(APP);
  await firstSourceRow(APP, 0);
  await firstView(LARGE_APP);
  const figures = {
    first_view: await each(() => firstView(APP)),
    // Another row each time: the server may keep what it found before.
    first_source_row: await each((run) => firstSourceRow(APP, run + 1)),
    large_graph: await each(() => firstView(LARGE_APP)),
  };
  writeFileSync(FIGURES ?? '/dev/stdout', JSON.stringify(figures));
});
