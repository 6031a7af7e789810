import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

import { mockApi } from './mock/plugin.ts';

/** A running service to talk to in place of the made-up one: LINEAGE_API=http://127.0.0.1:8080 */
const service = process.env.LINEAGE_API;
const proxy = service === undefined ? undefined : { '/v1': { target: service } };

const STATEFUL = ['src/{api,auth}/**/*.test.{ts,tsx}'];

export default defineConfig({
  plugins: [react(), ...(service === undefined ? [mockApi()] : [])],
  server: { host: '127.0.0.1', port: 5173, proxy },
  preview: { host: '127.0.0.1', port: 4173, proxy },
  build: {
    outDir: '../src/lineage_query_api/web/static',
    emptyOutDir: true,
    // The policy of the page allows no data: addresses but for images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2023',
    license: { fileName: 'licenses.md' },
    chunkSizeWarningLimit: 2000,
  },
  worker: { format: 'es' },
  test: {
    environment: 'jsdom',
    setupFiles: ['src/testing/setup.ts'],
    restoreMocks: true,
    testTimeout: 30_000,
    pool: 'threads',
    // A file by itself loads React and a document anew: four times the work. What keeps state in modules has to.
    projects: [
      {
        extends: true,
        test: { name: 'fresh', include: STATEFUL },
      },
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['src/**/*.test.{ts,tsx}', 'mock/**/*.test.ts'],
          exclude: STATEFUL,
          isolate: false,
          maxWorkers: 1,
        },
      },
    ],
  },
});
