/** The graph of jobs and datasets, grown by clicks and keys; over a real service with a chain of jobs. */

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { expectAccessible, launch, newPage, shot } from './browser';

/** What the store holds: an application in a chain of jobs, and a dataset that more jobs read than are shown at first. */
interface Expected {
  app: string;
  /** The job of that application, what it reads and writes, and the job before. */
  job: string;
  reads: string;
  writes: string;
  before: string;
  /** A dataset that `readers` jobs read. */
  hub: string;
  readers: number;
}

const expected = JSON.parse(process.env.LINEAGE_E2E_JOBS ?? '') as Expected;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

const nodes = (page: Page) =>
  page
    .locator('.operator-button')
    .evaluateAll((all) => all.map((one) => one.getAttribute('title') ?? '').sort());
const node = (page: Page, title: string) => page.locator(`.operator-button[title="${title}"]`);

describe.each(['light', 'dark'] as const)('jobs and datasets, %s', (scheme) => {
  let page: Page;
  let complaints: string[];
  beforeAll(async () => {
    ({ page, complaints } = await newPage(browser, scheme));
  });
  afterAll(() => page.context().close());

  it('start at the application that is looked at', async () => {
    await page.goto(`/apps/${expected.app}`);
    await page.getByRole('link', { name: 'Jobs and datasets' }).click();
    await expect
      .poll(() => nodes(page))
      .toEqual([expected.job, expected.reads, expected.writes].sort());
    await page.getByRole('heading', { name: expected.job }).waitFor();
    await expectAccessible(page);
    await shot(page, `jobs-${scheme}`);
  });

  it('grow by a click beside a dataset, and the address keeps it', async () => {
    const read = page.locator('.operator', { has: node(page, expected.reads) });
    await read.getByRole('button', { name: /^Show 1 more jobs that write/ }).click();
    await node(page, expected.before).waitFor();
    expect(await read.getByRole('button', { name: /jobs that write/ }).count()).toBe(0);
    // Whoever pressed it by a key goes on from the dataset.
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.getAttribute('title')))
      .toBe(expected.reads);
    const shown = await nodes(page);
    expect(shown).toHaveLength(4);
    await page.reload();
    await expect.poll(() => nodes(page)).toEqual(shown);
  });

  it('are walked by arrow keys', async () => {
    await node(page, expected.job).focus();
    await page.keyboard.press('ArrowLeft');
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('title'));
    await expect.poll(focused).toBe(expected.reads);
    await page.keyboard.press('ArrowLeft');
    await expect.poll(focused).toBe(expected.before);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: expected.before }).waitFor();
  });

  it('show some of very many neighbours, and more by each click', async () => {
    await page.goto(`/jobs?${new URLSearchParams({ namespace: 'file', name: expected.hub })}`);
    const canvas = page.locator('.canvas');
    const drawn = async () => Number(await canvas.getAttribute('data-nodes'));
    await canvas.waitFor();
    const first = await drawn();
    expect(first).toBeLessThan(expected.readers);
    const panel = page.getByRole('complementary', { name: 'Details' });
    await panel.getByText(`${expected.readers}`, { exact: true }).waitFor();
    await panel
      .getByRole('region', { name: 'Read by' })
      .getByRole('button', { name: /^Show/ })
      .click();
    await expect.poll(drawn).toBeGreaterThan(first);
    await expectAccessible(page);
  });

  it('fit a narrow screen', async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    await page.goto(`/jobs?${new URLSearchParams({ job: expected.job })}`);
    await node(page, expected.job).waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(390);
    await expectAccessible(page);
    await shot(page, `jobs-narrow-${scheme}`);
  });

  it('say that there is none of a name', async () => {
    expect(complaints).toEqual([]);
    await page.goto('/jobs?job=no-such-job');
    await page.getByText(/there is no job or dataset 'no-such-job'/).waitFor();
    complaints.splice(0).forEach((one) => expect(one).toContain('404'));
    await page.goto('/jobs');
    await page.getByText('Where should the graph start?').waitFor();
  });
});
