import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import type { AxeResults, RunOptions } from 'axe-core';
import { chromium, type Browser, type Page } from 'playwright-core';
import { expect, inject } from 'vitest';

const OUT = new URL('./out/', import.meta.url).pathname;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const baseUrl = () => inject('baseUrl');
export const isMock = () => inject('isMock');

export type Scheme = 'light' | 'dark';

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
}

/** A page that remembers what it complained about: errors, and what its policy forbade. */
export async function newPage(browser: Browser, colorScheme: Scheme = 'light') {
  const context = await browser.newContext({
    baseURL: baseUrl(),
    colorScheme,
    viewport: { width: 1440, height: 860 },
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const token = process.env.LINEAGE_TOKEN;
  if (token !== undefined) {
    await context.addInitScript((it) => sessionStorage.setItem('lineage.token', it), token);
  }
  context.setDefaultTimeout(10_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  return { page, complaints };
}

export async function shot(page: Page, name: string): Promise<void> {
  mkdirSync(OUT, { recursive: true });
  await page.screenshot({ path: `${OUT}${name}.png` });
}

/** Fails for what axe calls serious or critical. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(AXE);
  const results = await page.evaluate(
    (options) => (window as unknown as { axe: Axe }).axe.run(document, options),
    { resultTypes: ['violations'] } satisfies RunOptions,
  );
  const serious = results.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map((n) => n.html).join('\n  ')}`);
  expect(serious).toEqual([]);
}

interface Axe {
  run: (root: Document, options: RunOptions) => Promise<AxeResults>;
}
