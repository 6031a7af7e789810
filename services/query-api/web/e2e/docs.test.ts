/** The document of the API: from the service's own files, under its policy, behind its sign-in. */

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { baseUrl, isMock, launch, newPage, shot } from './browser';

const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Lineage Master', version: '1' },
  paths: { '/v1/me': { get: { summary: 'Me', responses: { '200': { description: 'OK' } } } } },
};

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe('the document of the API', () => {
  it('lists operations and tries them as whoever is signed in', async () => {
    const { page, complaints } = await newPage(browser);
    const elsewhere: string[] = [];
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (url.protocol !== 'data:' && url.origin !== new URL(baseUrl()).origin)
        elsewhere.push(request.url());
    });
    if (isMock()) await page.route('**/openapi.json', (route) => route.fulfill({ json: DOCUMENT }));
    await page.goto('/docs');
    const operation = page.locator('.opblock', { hasText: '/v1/me' }).first();
    await operation.locator('.opblock-summary-control').click();
    await operation.getByRole('button', { name: 'Try it out' }).click();
    await operation.getByRole('button', { name: 'Execute' }).click();
    await operation
      .locator('.live-responses-table .response-col_status', { hasText: '200' })
      .waitFor();
    expect(await operation.innerText()).not.toContain('Bearer');
    await shot(page, 'api-reference');
    expect(complaints).toEqual([]);
    expect(elsewhere).toEqual([]);
    await page.context().close();
  });

  it.each(['light', 'dark'] as const)('is %s where the theme is', async (theme) => {
    const { page } = await newPage(browser, theme);
    if (isMock()) await page.route('**/openapi.json', (route) => route.fulfill({ json: DOCUMENT }));
    await page.goto('/docs');
    const title = page.locator('.api-reference .info .title').first();
    await title.waitFor();
    const bright = (css: string) => {
      const [red = 0, green = 0, blue = 0] = (css.match(/[\d.]+/g) ?? []).map(Number);
      return (red + green + blue) / 3;
    };
    const colours = () =>
      title.evaluate((element) => {
        const ground = element.closest('.api-reference') ?? element;
        return [getComputedStyle(ground).backgroundColor, getComputedStyle(element).color] as const;
      });
    const [ground, letters] = await colours();
    expect(bright(ground) < 128).toBe(theme === 'dark');
    expect(bright(letters) > 128).toBe(theme === 'dark');
    await shot(page, `api-reference-${theme}`);
    // The switch of the page changes it, too, and other pages are left as they were.
    await page.getByRole('button', { name: /theme$/ }).click();
    await expect.poll(async () => bright((await colours())[0]) < 128).toBe(theme === 'light');
    await page.context().close();
  });

  it.skipIf(isMock())('is behind the sign-in, as all pages are', async () => {
    const { page } = await newPage(browser, 'light', '');
    await page.goto('/docs');
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await page.locator('.opblock').count()).toBe(0);
    await page.context().close();
  });
});
