/** The whole story, as a person goes through it; over any service that holds a complete application. */

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { APP, expectAccessible, isMock, launch, newPage, shot, type Scheme } from './browser';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe.each<Scheme>(['light', 'dark'])('the story in a %s theme', (scheme) => {
  let page: Page;
  let complaints: string[];
  let app = '';
  beforeAll(async () => {
    ({ page, complaints } = await newPage(browser, scheme));
  });
  afterAll(() => page.context().close());

  const row = (index: number) => page.locator(`.items-row[data-index="${index}"]`);
  const picture = (name: string) => shot(page, `${name}-${scheme}`);

  it('begins with the applications, searched', async () => {
    await page.goto('/');
    await page.getByRole('heading', { name: 'Applications' }).waitFor();
    await page.locator('.app-link').first().waitFor();
    await picture('1-applications');
    await expectAccessible(page);
    if (APP !== '') {
      await page.keyboard.press('/');
      await page.keyboard.type(APP);
      await expect.poll(() => page.url()).toContain(`q=${encodeURIComponent(APP)}`);
      await expect.poll(() => page.locator('.app-link').count()).toBe(1);
    } else {
      await page.getByLabel('Verdict').selectOption('yes');
      await expect.poll(() => page.url()).toContain('complete=yes');
    }
    await page.locator('.app-link').first().click();
    await page.waitForURL(/\/apps\//);
    app = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  });

  it('shows the graph of one', async () => {
    await page.locator('.operator-button').first().waitFor();
    expect(await page.locator('.stage').count()).toBeGreaterThan(0);
    await picture('2-graph');
    await expectAccessible(page);
  });

  it('walks the graph by arrow keys', async () => {
    // The first view shows an output.
    await page.locator('.operator[data-kind="sink"] .operator-button').first().focus();
    const before = await focusedNode(page);
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => focusedNode(page)).not.toBe(before);
  });

  it('shows the rows of an output, and what is known of it', async () => {
    await page.locator('.ends button').first().click();
    await row(0).waitFor();
    await expectAccessible(page);
    await picture('3-rows');
    await page.getByRole('tab', { name: 'About' }).click();
    await page.getByText('Call site', { exact: true }).waitFor();
    await expectAccessible(page);
    await page.getByRole('tab', { name: 'Rows' }).click();
  });

  it('traces a row back to its source rows', async () => {
    await row(0).click();
    await page.locator('.trace-count').waitFor();
    await row(0).waitFor();
    expect(await page.locator('.operator-taking').count()).toBeGreaterThan(1);
    await page.locator('.link-traced').first().waitFor({ state: 'attached' });
    await expectAccessible(page);
    await picture('4-trace');
  });

  it('shows a source row in its file', async () => {
    await row(0).click();
    await page.locator('.raw-lines [aria-current]').waitFor();
    // A source of CSV has columns, and the row a value in each.
    const names = await page.locator('.items-name').allInnerTexts();
    if (names.length > 0) {
      await page.locator('.row-fields').waitFor();
      expect(await page.locator('.row-fields dt').allInnerTexts()).toEqual(names);
    }
    await expectAccessible(page);
    await picture('5-lines');
    await page.keyboard.press('Escape');
    await expect.poll(() => page.locator('.raw').count()).toBe(0);
  });

  it('gives the command for it', async () => {
    await page.getByRole('button', { name: 'Copy as CLI command' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    expect(command).toMatch(/^lineage back \S+ --app \S+$/);
    expect(command).toContain(app);
  });

  it('shows the same to whoever gets its address', async () => {
    const count = await page.locator('.trace-count').innerText();
    const { page: other } = await newPage(browser, scheme);
    await other.goto(page.url());
    await other.locator('.trace-count').waitFor();
    expect(await other.locator('.trace-count').innerText()).toBe(count);
    await other.context().close();
  });

  it('goes step by step', async () => {
    await page.getByRole('button', { name: 'Step by step' }).click();
    await page.getByText('step 1', { exact: true }).waitFor();
    const next = page.getByRole('button', { name: 'Next step' });
    if (await next.isEnabled()) {
      await next.click();
      await page.getByText('step 2', { exact: true }).waitFor();
    }
    await expectAccessible(page);
    await picture('6-step');
    await page.goBack();
    await page.getByText('step 1', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'All the way' }).click();
    await row(0).waitFor();
  });

  it('traces a source row forward', async () => {
    await row(0).hover();
    await row(0).getByRole('button', { name: 'Forward →' }).click();
    await page.getByRole('heading', { name: 'Forward trace' }).waitFor();
    await row(0).waitFor();
    await picture('7-forward');
  });

  it('searches rows, selects two, compares and ranks', async () => {
    await page.keyboard.press('Escape');
    await page.getByRole('tab', { name: 'Rows' }).waitFor();
    await row(0).waitFor();
    await row(0).getByRole('checkbox').check();
    await row(1).getByRole('checkbox').check();
    await expect.poll(() => new URL(page.url()).searchParams.getAll('sel').length).toBe(2);
    await picture('8-selected');
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Compare' }).click();
    await page.locator('.difference').first().waitFor();
    await expectAccessible(page);
    await picture('9-compare');
    await page.goBack();
    await page.getByRole('link', { name: 'Suspects' }).click();
    await page.locator('.table tbody tr').first().waitFor();
    await page.locator('.operator-rank').first().waitFor();
    await expectAccessible(page);
    await picture('10-suspects');
    const chosen = page.getByRole('list', { name: 'Chosen outputs' });
    await chosen.getByRole('button', { name: 'Good' }).last().click();
    await expect.poll(() => new URL(page.url()).searchParams.getAll('good').length).toBe(1);
    await page.goBack();
  });

  it('shows a result that a command wrote, without the server', async () => {
    const before = page.url();
    await page.goto('/results');
    const item = { location: 'in.txt:1', text: '<b>a</b>' };
    const step = {
      step: 1,
      name: 'map',
      call_site: 'job.py:8',
      inputs: [],
      count: 1,
      items: [item],
    };
    const result = {
      app: 'local-1',
      place: 'out:1',
      steps: [step, { ...step, step: 2 }],
      reasons: [],
    };
    await page.getByLabel('Open a file').setInputFiles({
      name: 'result.json',
      mimeType: 'application/json',
      buffer: Buffer.from(JSON.stringify(result)),
    });
    await page.getByRole('button', { name: 'Forward', exact: true }).click();
    await page.getByText('step 2 of 2').waitFor();
    await page.getByText('<b>a</b>').waitFor();
    await expectAccessible(page);
    await picture('11-results');
    await page.goto(before);
  });

  it('keeps the search in the address', async () => {
    await row(0).waitFor();
    const text = await row(0).locator('.items-text').innerText();
    const word = /[A-Za-z]{2,}/.exec(text)?.[0] ?? text.slice(0, 3);
    await page.getByLabel('Search rows').fill(word);
    await expect.poll(() => new URL(page.url()).searchParams.get('q')).toBe(word);
    await page.locator('.mark-search').first().waitFor();
    await page.getByRole('button', { name: /^Trace all that match/ }).click();
    await page.locator('.trace-count').waitFor();
    await expectAccessible(page);
  });

  it('remembers another theme', async () => {
    const other = scheme === 'light' ? 'dark' : 'light';
    await page.getByRole('button', { name: new RegExp(`${other} theme`, 'i') }).click();
    await page.reload();
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe(other);
  });

  it('never complained', () => {
    expect(complaints).toEqual([]);
    expect(isMock() || app !== '').toBe(true);
  });
});

function focusedNode(page: Page): Promise<string | null> {
  return page.evaluate(() => document.activeElement?.getAttribute('data-node') ?? null);
}
