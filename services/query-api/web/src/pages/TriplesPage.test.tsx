import { screen, waitFor, within } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { TripleTrace } from '../api/types';
import { json, show } from '../testing/pages';

afterEach(() => vi.unstubAllGlobals());

const SETS = {
  items: [{ name: 'letters', sources: 1, rows: 5, stored_bytes: 9, is_indexed: true, damaged: '' }],
};
const TRACE: TripleTrace = {
  data_set: 'letters',
  direction: 'backward',
  item: 'report',
  items: ['clean/a', 'raw/a'],
  items_count: 2,
  triples: [
    { src: 'clean/a', dst: 'report', op: 'join' },
    { src: 'raw/a', dst: 'clean/a', op: 'strip' },
  ],
  count: 2,
  method: 'ccprov',
  component_triples: 5,
  reason: 'as its component has 5 triples in all',
};

const answers =
  (trace: Partial<TripleTrace> = {}) =>
  ({ path }: { path: string }) => {
    if (path === '/v1/triples') return json(SETS);
    return path === '/v1/triples/trace' ? json({ ...TRACE, ...trace }) : undefined;
  };

describe('an item of triples', () => {
  it('is asked for by its name, and its neighbours can be chosen', async () => {
    const { calls } = show('/triples', answers());
    await userEvent.type(await screen.findByLabelText('Item'), 'report{Enter}');
    expect(await screen.findByText('from 2 items, by 2 triples')).toBeInTheDocument();
    expect(calls).toContain(
      'GET /v1/triples/trace?data_set=letters&item=report&direction=backward&limit=20000',
    );
    const details = screen.getByLabelText('Details');
    expect(within(details).getByRole('heading', { name: 'report' })).toBeInTheDocument();
    await userEvent.click(within(details).getByRole('button', { name: 'clean/a' }));
    expect(within(details).getByRole('heading', { name: 'clean/a' })).toBeInTheDocument();
    expect(
      within(within(details).getByLabelText('Derived from')).getByText('by strip'),
    ).toBeInTheDocument();
    await userEvent.click(within(details).getByText('What was derived from it'));
    await waitFor(() =>
      expect(calls).toContain(
        'GET /v1/triples/trace?data_set=letters&item=clean%2Fa&direction=forward&limit=20000',
      ),
    );
  });

  it('with a trace too large is not drawn, and can be exported', async () => {
    show('/triples?data_set=letters&item=report', answers({ count: 20_001 }));
    expect(
      await screen.findByText('A trace of more than 20,000 triples is not drawn.'),
    ).toBeInTheDocument();
    expect(screen.getByLabelText('Export')).toBeInTheDocument();
    expect(screen.queryByLabelText('Graph of items')).not.toBeInTheDocument();
  });

  it('that is none is told of', async () => {
    show('/triples?data_set=letters&item=nothing', ({ path }) =>
      path === '/v1/triples'
        ? json(SETS)
        : path === '/v1/triples/trace'
          ? json({ title: 'Not found', status: 404, detail: 'letters has no item nothing' }, 404)
          : undefined,
    );
    expect(await screen.findByRole('alert')).toHaveTextContent('letters has no item nothing');
  });
});

describe('data sets of triples', () => {
  it('are listed beside jobs and datasets', async () => {
    show('/jobs', answers());
    expect(await screen.findByRole('link', { name: 'letters' })).toHaveAttribute(
      'href',
      '/triples?data_set=letters&direction=backward',
    );
  });
});
