import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

import { mockApi } from './mock/plugin.ts';

/** A running service to talk to in place of the made-up one: LINEAGE_API=http://127.0.0.1:8080 */
const service = process.env.LINEAGE_API;
const proxy = service === undefined ? undefined : { '/v1': { target: service } };

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
    include: ['src/**/*.test.{ts,tsx}', 'mock/**/*.test.ts'],
    setupFiles: ['src/testing/setup.ts'],
    restoreMocks: true,
    testTimeout: 30_000,
  },
});
