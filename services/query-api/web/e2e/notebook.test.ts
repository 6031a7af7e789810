/** What notebooks show, as a browser draws it: on light and on dark grounds, in wide and narrow cells. */

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { expectAccessible, launch, shot } from './browser';

/** HTML by what it is of. */
const shown = JSON.parse(process.env.LINEAGE_E2E_NOTEBOOK ?? '{}') as Record<string, string>;
const GROUNDS = { light: ['#ffffff', '#212121'], dark: ['#111111', '#e0e0e0'] } as const;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe.each(['light', 'dark'] as const)('in a %s theme', (theme) => {
  it.each(Object.keys(shown))('%s can be read', async (name) => {
    const [ground, letters] = GROUNDS[theme];
    for (const width of [1000, 390]) {
      const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme: theme });
      const asked: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      page.on('dialog', (dialog) => {
        asked.push(dialog.message());
        void dialog.dismiss();
      });
      await page.setContent(
        `<!doctype html><html lang="en"><head><title>${name}</title></head>` +
          `<body style="background:${ground};color:${letters};font:14px sans-serif">` +
          `<main>${shown[name] ?? ''}</main></body></html>`,
      );
      // A notebook's cell is as wide as it is: what is wider scrolls by itself.
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      const small = await page.evaluate(() =>
        [...document.querySelectorAll('main *')]
          .filter((one) => one.textContent !== '')
          .map((one) => Number.parseFloat(getComputedStyle(one).fontSize)),
      );
      expect(Math.min(...small)).toBeGreaterThanOrEqual(11);
      await expectAccessible(page);
      if (width === 1000) await shot(page, `notebook-${name}-${theme}`);
      expect(asked).toEqual([]);
      await page.close();
    }
  });
});
