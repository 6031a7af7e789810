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
  /** The version of the table `reads` that the job before made. */
  version: string;
  /** A dataset that `readers` jobs read. */
  hub: string;
  readers: number;
  /** Two runs of a job, a row in each, and a row of the source that each alone is made of. */
  runs: { job: string; left: Side; right: Side };
}
interface Side {
  app: string;
  place: string;
  only: string;
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
    const readers = panel.getByRole('region', { name: 'Read by' });
    await readers.getByText(`${expected.readers}`, { exact: true }).waitFor();
    await readers.getByRole('button', { name: /^Show/ }).click();
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
  });

  it('are chosen from lists, without an application', async () => {
    await page.goto('/');
    await page.getByRole('link', { name: 'Jobs', exact: true }).click();
    const jobs = page.getByRole('region', { name: 'Jobs' });
    await jobs.getByRole('link', { name: expected.runs.job, exact: true }).waitFor();
    expect(await jobs.getByRole('link', { name: 'reader-0', exact: true }).count()).toBe(0);
    await page.getByLabel('Search datasets').fill('clean');
    const datasets = page.getByRole('region', { name: 'Datasets' });
    await expect.poll(() => datasets.getByRole('link').allTextContents()).toEqual([expected.reads]);
    await expectAccessible(page);
    await shot(page, `jobs-lists-${scheme}`);
    await datasets.getByText(`version ${expected.version}`).waitFor();
    await datasets.getByRole('link').click();
    await node(page, expected.reads).waitFor();
    const panel = page.getByRole('complementary', { name: 'Details' });
    const runs = panel.getByRole('region', { name: 'Runs' });
    await runs.getByText(`wrote version ${expected.version}`).waitFor();
    await expectAccessible(page);
    await page.goBack();
    await jobs.getByRole('button', { name: 'Show more jobs' }).click();
    await jobs.getByRole('button', { name: 'Show more jobs' }).click();
    await jobs.getByRole('link', { name: 'reader-0', exact: true }).waitFor();
    await jobs.getByRole('link', { name: expected.job, exact: true }).click();
    await node(page, expected.job).waitFor();
  });

  it('show the runs of a job, and compare a row of two of them', async () => {
    const { job, left, right } = expected.runs;
    await page.goto(`/jobs?${new URLSearchParams({ job })}`);
    const runs = page.getByRole('region', { name: 'Runs' });
    await runs.getByLabel(`Compare ${right.app}`).check();
    await runs.getByLabel(`Compare ${left.app}`).check();
    await expectAccessible(page);
    await runs.getByRole('link', { name: 'Compare a row of both runs' }).click();
    await page.getByLabel('Row', { exact: true }).fill(left.place);
    await page.getByLabel('Row of the right run').fill(right.place);
    await page.getByRole('button', { name: 'Compare' }).click();
    const [before, after] = [
      page.locator('.difference .side').first(),
      page.locator('.difference .side').last(),
    ];
    await before.getByText(left.only).waitFor();
    await after.getByText(right.only).waitFor();
    expect(await before.getByText(right.only).count()).toBe(0);
    await expectAccessible(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(390);
    await shot(page, `jobs-compared-${scheme}`);
    // The address holds all of it.
    await page.reload();
    await after.getByText(right.only).waitFor();
    await page.goto(
      `/jobs/compare?${new URLSearchParams({ left: left.app, right: right.app, place: 'no' })}`,
    );
    await page.getByRole('alert').waitFor();
    complaints.splice(0).forEach((one) => expect(one).toMatch(/40[04]|422/));
    await page.goto('/jobs/compare');
    await page.getByText('Two runs are needed.').waitFor();
  });
});
