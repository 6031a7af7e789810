/** Cells of arrays over their pictures, by pointer and by keys; over a real service with a recording of 2000 x 2000 cells. */

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { expectAccessible, launch, newPage, shot } from './browser';

/** The application that recorded `image.npy` (2000 x 2000), its left half `half.npy`, `total` of its columns, and `cube.npy`. */
const app = process.env.LINEAGE_E2E_CELLS ?? '';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

const figure = (page: Page, name: string) => page.getByRole('region', { name, exact: true });
const canvas = (page: Page, name: string) => figure(page, name).locator('canvas');
const painted = (page: Page, name: string) =>
  expect.poll(() => canvas(page, name).getAttribute('data-painted'));

/** Which pixels of a canvas have the colour of marks: their rows and columns, from the first to the last. */
const marked = (page: Page, name: string) =>
  canvas(page, name).evaluate((one: HTMLCanvasElement) => {
    const data = one.getContext('2d')?.getImageData(0, 0, one.width, one.height).data ?? [];
    const places: [number, number][] = [];
    for (let at = 0; at < data.length; at += 4) {
      const isGrey = data[at] === data[at + 1] && data[at] === data[at + 2];
      if ((data[at + 3] ?? 0) > 0 && !isGrey) {
        places.push([Math.floor(at / 4 / one.width), (at / 4) % one.width]);
      }
    }
    const ends = (axis: 0 | 1) => {
      const all = places.map((place) => place[axis]);
      return [Math.min(...all), Math.max(...all)];
    };
    return { count: places.length, rows: ends(0), columns: ends(1) };
  });

describe.each(['light', 'dark'] as const)('cells of arrays, %s', (scheme) => {
  let page: Page;
  let complaints: string[];
  const heavy: number[] = [];
  beforeAll(async () => {
    ({ page, complaints } = await newPage(browser, scheme));
    page.on('response', (response) => {
      if (response.url().includes('/arrays')) {
        void response.body().then(
          (body) => heavy.push(body.length),
          () => undefined,
        );
      }
    });
  });
  afterAll(() => page.context().close());

  it('are reached from their application', async () => {
    await page.goto(`/apps/${app}`);
    await page.getByRole('link', { name: 'Cells of arrays' }).click();
    await page.getByLabel('Array', { exact: true }).selectOption({ label: 'half.npy' });
    await painted(page, 'Output half.npy').toBe('picture');
    await expectAccessible(page);
  });

  it('are traced back by dragging, and shown over the source', async () => {
    const box = await canvas(page, 'Output half.npy').boundingBox();
    if (box === null) throw new Error('there is no picture');
    // half.npy has 2000 x 1000 cells.
    const at = (row: number, column: number) =>
      [box.x + (column / 1000) * box.width, box.y + (row / 2000) * box.height] as const;
    await page.mouse.move(...at(500, 250));
    await page.mouse.down();
    await page.mouse.move(...at(900, 500), { steps: 4 });
    await page.mouse.up();
    await painted(page, 'Source image.npy').toBe('picture marks');
    const found = await marked(page, 'Source image.npy');
    // A pixel is 5 x 5 cells; the pointer names a cell to some of these.
    for (const [ends, expected] of [
      [found.rows, [100, 180]],
      [found.columns, [50, 100]],
    ] as const) {
      ends.forEach((end, at) => expect(Math.abs(end - (expected[at] ?? 0))).toBeLessThan(3));
    }
    await page.getByText('Exact, complete.').waitFor();
    await expectAccessible(page);
    await shot(page, `cells-${scheme}`);
  });

  it('are named by an index, and the address keeps it', async () => {
    await page.getByRole('textbox', { name: 'Cells of half.npy' }).fill('3,4');
    await page.getByRole('button', { name: 'Trace back' }).click();
    const source = figure(page, 'Source image.npy');
    await source.getByText('1 of 4,000,000 cells').waitFor();
    // The value is that of the file: of row 3 and column 4.
    await expect
      .poll(() => source.getByRole('listitem').first().textContent())
      .toBe('[3,4] 6004.0');
    await page.reload();
    await source.getByText('1 of 4,000,000 cells').waitFor();
  });

  it('are traced forward by keys alone', async () => {
    await page.getByLabel('Array', { exact: true }).selectOption({ label: 'image.npy' });
    await painted(page, 'Source image.npy').toBe('picture');
    await canvas(page, 'Source image.npy').focus();
    for (const key of ['ArrowDown', 'ArrowRight', 'Shift+ArrowRight', 'Enter']) {
      await page.keyboard.press(key);
    }
    await figure(page, 'Output total').getByText('2 of 2,000 cells').waitFor();
    await figure(page, 'Output half.npy').getByText('2 of 2,000,000 cells').waitFor();
    expect(page.url()).toContain('cells=0%2C1%3A3');
    await expect
      .poll(() => figure(page, 'Source image.npy').getByRole('listitem').allTextContents())
      .toEqual(['[0,1] 1.0', '[0,2] 2.0']);
    await expectAccessible(page);
  });

  it('are looked at more closely', async () => {
    const zoom = page.getByRole('button', { name: 'Zoom in: image.npy' });
    for (let times = 0; times < 3; times++) await zoom.click();
    await expect
      .poll(() => canvas(page, 'Source image.npy').getAttribute('aria-label'))
      .toContain('875:1125,875:1125');
    await painted(page, 'Source image.npy').toBe('picture marks');
    await page.getByRole('button', { name: 'Up: image.npy' }).click();
    await expect
      .poll(() => canvas(page, 'Source image.npy').getAttribute('aria-label'))
      .toContain('750:1000,875:1125');
    await page.getByLabel('Shades').selectOption('colour');
  });

  it('of more axes are shown plane by plane', async () => {
    await page.getByLabel('Array', { exact: true }).selectOption({ label: 'cube.npy' });
    await painted(page, 'Source cube.npy').toBe('picture');
    await page.getByLabel('axis 0').fill('2');
    await expect
      .poll(() => canvas(page, 'Source cube.npy').getAttribute('aria-label'))
      .toContain('2,0:20,0:30');
    await page.getByRole('textbox', { name: 'Cells of cube.npy' }).fill('2,5,7');
    await page.getByRole('button', { name: 'Trace forward' }).click();
    await figure(page, 'Output flat').getByText('1 of 600 cells').waitFor();
    await figure(page, 'Output flat').getByText('No values: they were not saved').waitFor();
  });

  it('fit a narrow screen, and no answer has a whole array', async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(390);
    await expectAccessible(page);
    expect(Math.max(...heavy)).toBeLessThan(1_000_000);
    expect(complaints).toEqual([]);
  });
});
