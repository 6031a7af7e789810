import { defineConfig } from 'vitest/config';

const ANY = 'e2e/{story,states,docs}.test.ts';
/** Of a program with DataFrames, over a server with a Spark. */
const FRAMES = 'e2e/frames.test.ts';
/** Signing in, over a server with an issuer. */
const OIDC = 'e2e/oidc.test.ts';
/** Jobs and datasets, over a store of very many. */
const JOBS = 'e2e/jobs.test.ts';
/** Cells of arrays, over a store with recordings. */
const CELLS = 'e2e/cells.test.ts';
/** What notebooks show: pages of its own, and no server. */
const NOTEBOOK = 'e2e/notebook.test.ts';
const MADE_UP = 'e2e/madeup.test.ts';
/** What else drives a browser, by mode: over a running service alone. */
const OTHERS: Record<string, string> = {
  figures: 'e2e/figures.ts',
  'job-figures': 'e2e/jobFigures.ts',
  pictures: 'e2e/pictures.ts',
};

/** A real service has no made-up data. */
function stories(): string[] {
  if (process.env.LINEAGE_E2E_FRAMES !== undefined) return [FRAMES];
  if (process.env.LINEAGE_E2E_JOBS !== undefined) return [JOBS];
  if (process.env.LINEAGE_E2E_CELLS !== undefined) return [CELLS];
  if (process.env.LINEAGE_E2E_NOTEBOOK !== undefined) return [NOTEBOOK];
  if (process.env.LINEAGE_E2E_OIDC !== undefined) return [OIDC];
  return process.env.LINEAGE_URL === undefined ? [ANY, MADE_UP] : [ANY];
}

/** Stories in a browser, over the made-up service or, with LINEAGE_URL, over a real one. */
export default defineConfig(({ mode }) => ({
  test: {
    include: [...(mode in OTHERS ? [OTHERS[mode] ?? ''] : stories())],
    globalSetup: 'e2e/serve.ts',
    fileParallelism: false,
    testTimeout: mode in OTHERS ? 900_000 : 120_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
  },
}));
