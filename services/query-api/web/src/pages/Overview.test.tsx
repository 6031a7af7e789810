import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { fireEvent, render, screen, within } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';

import type { AppDetail } from '../api/types';
import { json } from '../testing/pages';
import { Overview } from './Overview';

afterEach(() => vi.unstubAllGlobals());

const DETAIL = {
  app: 'local-1',
  complete: true,
  final: true,
  nodes: 4,
  reasons: [],
  refusals: [],
  sinks: [],
  sources: [],
  unknown_parts: [],
} as unknown as AppDetail;

it('says what was set aside, and what was repaired, each of its operator', async () => {
  vi.stubGlobal('fetch', (url: string) =>
    Promise.resolve(
      url.includes('/completeness')
        ? json({ set_aside: { '1': 3 }, repaired: { '2': 1 } })
        : json({
            nodes: [
              { node: '1', name: 'map', op: 'map', members: ['1'] },
              { node: '2', name: '', op: 'filter', members: ['2'] },
              { node: '2:quarantine', name: '', op: 'quarantine', members: ['2:quarantine'] },
            ],
            links: [],
          }),
    ),
  );
  const chosen = vi.fn();
  render(
    <QueryClientProvider client={new QueryClient()}>
      <Overview detail={DETAIL} onSelect={chosen} />
    </QueryClientProvider>,
  );
  const aside = (await screen.findByText('Set aside')).parentElement as HTMLElement;
  expect(await within(aside).findByText('map')).toBeInTheDocument();
  expect(aside).toHaveTextContent('3 records');
  const repaired = screen.getByText('Repaired').parentElement as HTMLElement;
  expect(repaired).toHaveTextContent('with others in their place');
  expect(repaired).toHaveTextContent('1 record');
  expect(await within(repaired).findByText('filter')).toBeInTheDocument();
  fireEvent.click(within(repaired).getByRole('button'));
  expect(chosen).toHaveBeenCalledWith('2:quarantine');
});
