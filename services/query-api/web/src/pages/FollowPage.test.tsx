import { screen } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { show } from '../testing/pages';

afterEach(() => vi.unstubAllGlobals());

const BATCH = { query: '8c29d3f1-0000', run: 'r', batch: 4 };
const ROW = { event: 'row', ...BATCH, place: 'out/part-0:2', text: '{"city":"ROME"}', exact: true };
const MADE = { event: 'made', ...BATCH, rows: 1 };
const END = { event: 'end', done: true, complete: true, time_up: false, open: {} };

function streamOf(events: object[]): Response {
  const parts = events.map((event) => `event: x\nid: 1\ndata: ${JSON.stringify(event)}\n\n`);
  return new Response([': following\n\n', ...parts].join(''));
}

describe('a row that is followed', () => {
  it('is asked for by its place, and its rows come with their batches', async () => {
    const { calls } = show('/follow', ({ path }) =>
      path === '/v1/follow'
        ? streamOf([
            { event: 'read', ...BATCH },
            { ...ROW, reasons: [], committed: true },
            MADE,
            END,
          ])
        : undefined,
    );
    await userEvent.type(await screen.findByLabelText('The row'), 'in/a.csv:3{Enter}');
    const row = await screen.findByRole('row', { name: /part-0:2/ });
    expect(row).toHaveTextContent('{"city":"ROME"}');
    expect(row).toHaveTextContent('query 8c29d3f1');
    expect(screen.getByText('Batch 4 of query 8c29d3f1 has read it.')).toBeInTheDocument();
    expect(screen.getByRole('status')).toHaveTextContent('1 row; nothing more comes of it.');
    expect(calls).toContain('GET /v1/follow?place=in%2Fa.csv%3A3');
  });

  it('is one of a source that fulfils a condition', async () => {
    const { calls } = show('/follow?place=in&where=city%20%3D%20%27Rome%27', () =>
      streamOf([
        { ...ROW, reasons: [], committed: true },
        MADE,
        { ...END, done: false, open: { q: 'more such rows may come' } },
      ]),
    );
    expect(await screen.findByRole('row', { name: /part-0:2/ })).toBeInTheDocument();
    expect(screen.getByLabelText('The condition')).toHaveValue("city = 'Rome'");
    expect(screen.getByRole('status')).toHaveTextContent('more such rows may come');
    expect(calls.some((call) => /^GET \/v1\/follow\?place=in&where=city/.test(call))).toBe(true);
  });

  it('is never said to be all known where something is not', async () => {
    show('/follow?place=a:1', () =>
      streamOf([
        { event: 'gap', query: 'q', reason: 'batch 2 is not recorded' },
        { ...ROW, exact: false, reasons: ['equal rows'], committed: false },
        MADE,
        { ...END, complete: false },
      ]),
    );
    expect(await screen.findByText('1 row; not all is known.')).toBeInTheDocument();
    expect(screen.getByText('not exact: equal rows')).toBeInTheDocument();
    expect(screen.getByText(/not committed/)).toBeInTheDocument();
  });

  it('is asked for again when the time of a stream is up', async () => {
    let asked = 0;
    show('/follow?place=a:1', ({ path }) => {
      if (path !== '/v1/follow') return undefined;
      asked += 1;
      return streamOf(asked === 1 ? [{ ...END, done: false, time_up: true }] : [MADE, END]);
    });
    expect(await screen.findByText('1 row; nothing more comes of it.')).toBeInTheDocument();
    expect(asked).toBe(2);
  });

  it('shows the problem that a stream ends with', async () => {
    show('/follow?place=a:1', () =>
      streamOf([{ event: 'problem', status: 422, title: 'No', detail: 'no streaming query' }]),
    );
    expect(await screen.findByRole('alert')).toHaveTextContent('no streaming query');
    expect(screen.getByRole('status')).toHaveTextContent('It is not followed any more.');
  });
});
