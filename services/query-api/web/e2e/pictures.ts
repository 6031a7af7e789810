/** Pictures of the main views for README and guides, over a service with the flights; written to PICTURES. */

import { join } from 'node:path';

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { application, launch, newPage, type Scheme } from './browser';

const FOLDER = process.env.PICTURES ?? new URL('./out/', import.meta.url).pathname;
/** The guides speak of the first row with it: two hours late on average. */
const SEARCH = 'George Bush';
/** Wide as a laptop, low enough to be read beside text. */
const SIZE = { width: 1440, height: 720 };
const LOW = { width: 1440, height: 380 };

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

async function view(
  name: string,
  scheme: Scheme,
  show: (page: Page) => Promise<void>,
  size = SIZE,
): Promise<void> {
  const { page, complaints } = await newPage(browser, scheme);
  await page.setViewportSize(size);
  await show(page);
  // The pointer leaves no row marked, and what moves has come to rest.
  await page.mouse.move(0, 0);
  await page.evaluate(() =>
    Promise.all(document.getAnimations().map((animation) => animation.finished)),
  );
  await page.screenshot({
    path: join(FOLDER, `${name}.png`),
    animations: 'disabled',
    caret: 'hide',
  });
  expect(complaints).toEqual([]);
  await page.context().close();
}

async function openApplications(page: Page): Promise<void> {
  await page.goto('/');
  await page.locator('.app-link').first().waitFor();
}

async function openGraph(page: Page): Promise<void> {
  const { app } = await application(page);
  await page.goto(`/apps/${app}`);
  await page.locator('.operator-button').first().waitFor();
}

/** The rows of the output that a search finds. */
async function openRows(page: Page): Promise<void> {
  await openGraph(page);
  await page.locator('.ends button').first().click();
  await page.getByLabel('Search rows').fill(SEARCH);
  await page.locator('.mark-search').first().waitFor();
}

async function openTrace(page: Page): Promise<void> {
  await openRows(page);
  await page.locator('.items-row').first().click();
  await page.locator('.trace-body .items-row').first().waitFor();
}

it('applications', () => view('applications', 'light', openApplications, LOW));

it('the graph of an application', () => view('graph', 'light', openGraph));

it('rows of an output', () => view('rows', 'light', openRows));

it('a trace', () => view('trace', 'light', openTrace));

it('a trace, dark, with a row in its file', () =>
  view('trace-dark', 'dark', async (page) => {
    await openTrace(page);
    await page.locator('.trace-body .items-row', { hasText: '783' }).click();
    await page.locator('.raw-lines [aria-current]').waitFor();
  }));

it('cells of arrays', () =>
  view('cells', 'light', async (page) => {
    const answer = await page.request.get('/v1/applications?search=stars');
    const { items } = (await answer.json()) as { items: { app: string }[] };
    await page.goto(`/apps/${items[0]?.app ?? ''}/cells?array=output-0&cells=30:60,40:80`);
    for (const name of ['Output mirrored.npy', 'Source sky.npy']) {
      const canvas = page.getByRole('region', { name, exact: true }).locator('canvas');
      await expect.poll(() => canvas.getAttribute('data-painted')).toBe('picture marks');
    }
  }));
