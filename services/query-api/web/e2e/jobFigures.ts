/**
 * How soon a person sees jobs and datasets, each time in a fresh browser context: from opening the address of an
 * application's job until its graph is painted, and from a click that opens a side of a node until the new nodes are.
 * Written as JSON to FIGURES.
 */

import { writeFileSync } from 'node:fs';

import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Browser } from 'playwright-core';

import { launch, newPage } from './browser';

const { FIGURES, APPS = '', RUNS = '15' } = process.env;
const apps = APPS.split(',');

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

/** Notes when another number of nodes is first painted, and the last click; runs before the page does. */
function watch(): void {
  const painted: { nodes: number; at: number }[] = [];
  Object.assign(window, { painted, clicked: 0 });
  const look = () => {
    const nodes = Number(document.querySelector('.canvas')?.getAttribute('data-nodes') ?? 0);
    if (nodes === 0 || nodes === painted.at(-1)?.nodes) return;
    const one = { nodes, at: NaN };
    painted.push(one);
    // The frame after the one that holds it: then it is on the screen.
    requestAnimationFrame(() => requestAnimationFrame(() => (one.at = performance.now())));
  };
  new MutationObserver(look).observe(document, {
    attributes: true,
    childList: true,
    subtree: true,
  });
  document.addEventListener('click', () => Object.assign(window, { clicked: performance.now() }), {
    capture: true,
  });
}

interface Watched {
  painted: { nodes: number; at: number }[];
  clicked: number;
}

async function measure(app: string) {
  const { page, complaints } = await newPage(browser);
  await page.addInitScript(watch);
  const painted = async (more: number) => {
    await page.waitForFunction((than) => {
      const last = (window as unknown as Watched).painted.at(-1);
      return last !== undefined && last.nodes > than && last.at > 0;
    }, more);
    return page.evaluate(() => {
      const { painted: all, clicked } = window as unknown as Watched;
      return { nodes: all.at(-1)?.nodes ?? 0, at: all.at(-1)?.at ?? NaN, clicked };
    });
  };
  await page.goto(`/jobs?app=${app}`);
  const first = await painted(0);
  const growths: { ms: number; nodes: number }[] = [];
  let { nodes } = first;
  for (let click = 0; click < 4; click++) {
    await page.locator('.neighbour-more').first().click();
    const grown = await painted(nodes);
    growths.push({ ms: grown.at - grown.clicked, nodes: grown.nodes });
    ({ nodes } = grown);
  }
  expect(complaints).toEqual([]);
  await page.context().close();
  return { first: { ms: first.at, nodes: first.nodes }, growths };
}

it('is measured', async () => {
  const runs = [];
  for (let run = 0; run < Number(RUNS); run++) {
    runs.push(await measure(apps[run % apps.length] ?? ''));
  }
  const figures = {
    first_view: runs.map((one) => one.first),
    growth: runs.flatMap((one) => one.growths),
  };
  if (FIGURES !== undefined) writeFileSync(FIGURES, JSON.stringify(figures));
});
