import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import {
  RouterProvider,
  createMemoryHistory,
  createRootRoute,
  createRouter,
} from '@tanstack/react-router';
import { render, screen, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { Direction } from '../api/types';
import { json } from '../testing/pages';
import { aNode } from '../testing/samples';
import { FrameRows } from './FrameRows';

beforeEach(() => {
  // There is no layout here.
  vi.spyOn(Element.prototype, 'clientHeight', 'get').mockReturnValue(300);
  vi.spyOn(Element.prototype, 'clientWidth', 'get').mockReturnValue(600);
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

function show(direction: Direction) {
  const items = [0, 1, 2].map((n) => ({
    address: `/totals/part.parquet#${n}`,
    location: `/totals/part.parquet#${n}`,
    text: JSON.stringify({ city: `c${n}` }),
    binding: null,
  }));
  const page = { node: '3', label: '3', count: null, items, next: null, changed: false };
  vi.stubGlobal('fetch', () => Promise.resolve(json({ ...page, standing: 'same' })));
  const root = createRootRoute({
    component: () => (
      <FrameRows
        app="local-1"
        id="3"
        node={aNode({ node: '3', kind: 'frame', has_items: false })}
        columns={[{ name: 'city', type: 'string' }]}
        direction={direction}
        onTrace={vi.fn()}
      />
    ),
  });
  const router = createRouter({ routeTree: root, history: createMemoryHistory() });
  render(
    <QueryClientProvider client={new QueryClient()}>
      {/* The page's routes are others. */}
      <RouterProvider router={router as never} />
    </QueryClientProvider>,
  );
}

test('rows of an output are selected, and suspects asked for of these', async () => {
  show('backward');
  const rows = within(await screen.findByRole('grid'));
  const [, first = document.body, second = document.body] = await rows.findAllByRole('row');
  await userEvent.click(within(second).getByRole('checkbox'));
  await userEvent.click(within(first).getByRole('checkbox'));
  const bar = within(screen.getByRole('toolbar', { name: 'Selected rows' }));
  expect(bar.getByText('2 selected')).toBeVisible();
  const link = bar.getByRole('link', { name: 'Suspects' });
  const to = decodeURIComponent(link.getAttribute('href') ?? '');
  expect(to).toContain('/apps/local-1/suspects');
  expect(to).toContain('"/totals/part.parquet#0","/totals/part.parquet#1"');
  expect(to).toContain('of=frames');
  await userEvent.click(bar.getByRole('button', { name: 'Clear' }));
  expect(screen.queryByRole('toolbar', { name: 'Selected rows' })).toBeNull();
});

test('rows of a source are no outputs', async () => {
  show('forward');
  const rows = within(await screen.findByRole('grid'));
  expect((await rows.findAllByRole('row')).length).toBeGreaterThan(1);
  expect(rows.queryByRole('checkbox')).toBeNull();
});
