import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import type { AxeResults, RunOptions } from 'axe-core';
import { chromium, type Browser, type Page } from 'playwright-core';
import { expect, inject } from 'vitest';

const OUT = new URL('./out/', import.meta.url).pathname;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const baseUrl = () => inject('baseUrl');
export const isMock = () => inject('isMock');
/** What a service that asks for tokens takes: an admin's, and one of a reader who may not see rows. */
export const TOKEN = process.env.LINEAGE_TOKEN;
export const READER_TOKEN = process.env.LINEAGE_READER_TOKEN;

/** Which application to go through: part of its name or id; empty: the latest complete one. */
export const APP =
  process.env.LINEAGE_E2E_APP ?? (process.env.LINEAGE_URL === undefined ? '1795249994956' : '');

export type Scheme = 'light' | 'dark';

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** A page that remembers what it complained about: errors, and what its policy forbade. */
export async function newPage(
  browser: Browser,
  colorScheme: Scheme = 'light',
  token: string | undefined = TOKEN,
) {
  const context = await browser.newContext({
    baseURL: baseUrl(),
    colorScheme,
    viewport: { width: 1440, height: 860 },
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  if (token !== undefined && token !== '') {
    await context.addInitScript((it) => sessionStorage.setItem('lineage.token', it), token);
  }
  // What a page on a busy machine may take; what is wrong stays wrong.
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  return { page, complaints };
}

export interface Found {
  app: string;
  sources: { node: string; label: string }[];
  sinks: { node: string; label: string }[];
}

/** The application that the story is of, as the service tells it. */
export async function application(page: Page): Promise<Found> {
  const headers = TOKEN === undefined ? undefined : { Authorization: `Bearer ${TOKEN}` };
  const get = async (path: string) => {
    const answer = await page.request.get(`/v1/applications${path}`, { headers });
    return (await answer.json()) as unknown;
  };
  const { items } = (await get(`?complete=true&search=${APP}`)) as { items: { app: string }[] };
  return (await get(`/${items[0]?.app ?? ''}`)) as Found;
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
