/** Whole pages for tests: the router at an address, over answers that a test gives. */

import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider, createMemoryHistory } from '@tanstack/react-router';
import { render } from '@testing-library/react';
import { vi } from 'vitest';

import type { Me } from '../api/types';
import { createAppRouter } from '../router';

export type Answer = (request: { path: string; method: string }) => Response | undefined;

export const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });

export const ANN: Me = {
  name: 'ann',
  role: 'admin',
  rows: true,
  delete: true,
  erase: true,
  access: true,
  watch: true,
  auth: 'token',
  version: '1',
};

/** Shows the page at an address; calls that `answer` does not know are never answered. */
export function show(at: string, answer: Answer, me: Me = ANN) {
  const calls: string[] = [];
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    const [path = ''] = url.split('?');
    const method = init.method ?? 'GET';
    calls.push(`${method} ${url}`);
    const response = path === '/v1/me' ? json(me) : answer({ path, method });
    return response === undefined ? new Promise(() => undefined) : Promise.resolve(response);
  });
  const router = createAppRouter(createMemoryHistory({ initialEntries: [at] }));
  const cache = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  render(
    <QueryClientProvider client={cache}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  return { router, calls };
}
