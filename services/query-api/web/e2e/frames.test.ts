/** Rows of DataFrames, as a person asks for them; over a real service with a Spark. */

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { application, expectAccessible, launch, newPage, shot } from './browser';

/** What a program made of rows of one file, some by way of RDDs. Lists hold places of rows of that file. */
interface Expected {
  /** A Parquet output, by how its path ends. */
  output: string;
  /** A column of it with a value, and what the rows that have it were made of. */
  column: string;
  value: string;
  valued: string[];
  /** A row of that output by its place, and what it was made of. */
  place: string;
  placed: string[];
  /** An output of RDDs, and what its first row was made of. */
  records: string;
  through: string[];
}

const expected = JSON.parse(process.env.LINEAGE_E2E_FRAMES ?? '') as Expected;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe('rows of DataFrames', () => {
  let page: Page;
  let complaints: string[];
  let app = '';
  beforeAll(async () => {
    ({ page, complaints } = await newPage(browser));
    // A trace is a chain of queries.
    page.setDefaultTimeout(90_000);
    ({ app } = await application(page));
  });
  afterAll(() => page.context().close());

  const form = (name: string) => page.getByRole('form', { name });
  const chips = () => page.getByRole('group', { name: 'Found in' }).getByRole('button');
  const back = (name: string) => form(name).getByRole('button', { name: '← Trace back' }).click();
  const found = () =>
    page
      .locator('.items-row .items-place [title]')
      .evaluateAll((cells) => cells.map((cell) => cell.getAttribute('title')));
  const openOutput = async (path: string) => {
    await page.goto(`/apps/${app}`);
    await page.locator('.ends button', { hasText: path }).click();
  };

  it('are asked for by the values of columns', async () => {
    await openOutput(expected.output);
    await form('Rows by their values').waitFor();
    await expectAccessible(page);
    await shot(page, 'frames-form');
    await page.getByLabel('Column 1').selectOption(expected.column);
    await page.getByLabel('Value 1').fill(expected.value);
    await back('Rows by their values');
    await page.getByRole('heading', { name: 'Backward trace' }).waitFor();
    await expect.poll(found).toEqual(expected.valued);
    expect(await page.getByRole('button', { name: 'Step by step' }).count()).toBe(0);
    await expectAccessible(page);
    await shot(page, 'frames-trace');
  });

  it('are listed with the names of columns, and traced by a click', async () => {
    await openOutput(expected.output);
    const rows = page.getByRole('grid', { name: /^Rows of/ });
    await rows.getByRole('columnheader', { name: expected.column }).waitFor();
    await rows.locator(`[title="${expected.place}"]`).waitFor();
    await expectAccessible(page);
    await shot(page, 'frames-rows');
    await rows.locator(`[title="${expected.place}"]`).click();
    await page.getByRole('heading', { name: 'Backward trace' }).waitFor();
    await expect.poll(found).toEqual(expected.placed);
    await openOutput(expected.output);
    await form('Rows by their values').waitFor();
  });

  it('are said not to be there where none has the values', async () => {
    await page.getByLabel('Value 1').fill('no such value');
    await back('Rows by their values');
    await page.getByText('no row of the output has these values').waitFor();
    complaints.splice(0).forEach((one) => expect(one).toContain('422'));
  });

  it('are asked for by where they stand', async () => {
    await page.getByRole('textbox', { name: 'Place' }).fill(expected.place);
    await back('A row by its place');
    await page.getByRole('heading', { name: 'Backward trace' }).waitFor();
    await expect.poll(found).toEqual(expected.placed);
  });

  it('are traced forward from a row of their source', async () => {
    await page.locator('.items-row').first().hover();
    await page.locator('.items-row').first().getByRole('button', { name: 'Forward →' }).click();
    await page.getByRole('heading', { name: 'Forward trace' }).waitFor();
    await chips().filter({ hasText: 'write:' }).first().waitFor();
  });

  it('are what records of an RDD were made of', async () => {
    await openOutput(expected.records);
    await page.locator('.items-row').first().click();
    await page.getByRole('heading', { name: 'Backward trace' }).waitFor();
    await chips().filter({ hasText: 'read:orders' }).click();
    await expect.poll(found).toEqual(expected.through);
    const formats = page.getByLabel('Export').locator('option');
    expect(await formats.allInnerTexts()).not.toContain('W3C PROV');
    await expectAccessible(page);
    await shot(page, 'frames-through');
    // The rows of the DataFrame that were these records have no place, and are shown.
    await chips().filter({ hasText: 'rdd' }).click();
    await expect.poll(found).toHaveLength(expected.through.length);
    await page.getByRole('button', { name: 'Step by step' }).click();
    await page.getByText('step 1', { exact: true }).waitFor();
  });

  it('never made it complain', () => {
    expect(complaints).toEqual([]);
  });
});
