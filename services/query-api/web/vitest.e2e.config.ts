import { defineConfig } from 'vitest/config';

/** Stories in a browser, over the made-up service or, with LINEAGE_URL, over a real one. */
export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    globalSetup: 'e2e/serve.ts',
    fileParallelism: false,
    testTimeout: 40_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 10_000 } },
  },
});
