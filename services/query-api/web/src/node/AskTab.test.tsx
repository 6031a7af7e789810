import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { render, screen, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { aNode } from '../testing/samples';
import { ANN, json } from '../testing/pages';
import { AskTab } from './AskTab';

const COLUMNS = [
  { name: 'city', type: 'string' },
  { name: 'total', type: 'double' },
];

afterEach(() => vi.unstubAllGlobals());

const LISTED = {
  node: '3',
  label: '3',
  what: 'write',
  path: '/out',
  count: null,
  items: [
    item('/out/part-0.parquet#0', { city: 'Oslo', total: 1.5 }),
    item('/out/part-0.parquet#1', { city: 'Lima' }),
  ],
  next: null,
  scanned: 2,
  cut: 0,
  changed: false,
  standing: 'same',
};

function item(place: string, row: object) {
  return { address: place, location: place, text: JSON.stringify(row), binding: null };
}

interface Options {
  kind?: string;
  traced?: boolean;
  rows?: boolean;
  busy?: boolean;
  items?: object;
  op?: string;
}

const FAILED = {
  node: '3',
  label: '3',
  items: [
    {
      number: 1,
      function: 'half(parsed)',
      action: 'DataFrameWriter.parquet at job.py:9',
      values: ["'two'", 'NULL'],
      error: "ValueError: invalid literal for int() with base 10: 'two'",
    },
  ],
  total: 1,
  more: true,
};

function ask(options: Options = {}) {
  const { kind = 'frame', traced = true, rows = true, busy = false, items, op = 'map' } = options;
  vi.stubGlobal('fetch', (url: string) =>
    Promise.resolve(
      url.endsWith('/me')
        ? json({ ...ANN, rows })
        : url.includes('/failed-calls')
          ? json(FAILED)
          : url.includes('/items')
            ? json(items ?? LISTED)
            : json({
                node: '3',
                label: '3',
                columns: COLUMNS,
                traced,
                missing: traced ? '' : 'the extra [spark] brings it',
              }),
    ),
  );
  const onTrace = vi.fn();
  const onTraceValues = vi.fn();
  render(
    <QueryClientProvider client={new QueryClient()}>
      <AskTab
        app="local-1"
        id="3"
        node={aNode({ node: '3', kind, op, has_items: false })}
        busy={busy}
        onTrace={onTrace}
        onTraceValues={onTraceValues}
      />
    </QueryClientProvider>,
  );
  return { onTrace, onTraceValues };
}

describe('rows of a DataFrame', () => {
  it('are asked for by the values of columns', async () => {
    const { onTraceValues } = ask();
    await userEvent.type(await screen.findByLabelText('Value 1'), 'Oslo');
    await userEvent.click(screen.getByRole('button', { name: 'And another column' }));
    const byValues = within(screen.getByRole('form', { name: 'Rows by their values' }));
    const [, second = document.body] = byValues.getAllByLabelText('NULL');
    await userEvent.click(second);
    await userEvent.click(byValues.getByRole('button', { name: '← Trace back' }));
    expect(onTraceValues).toHaveBeenCalledWith('backward', [
      { column: 'city', value: 'Oslo' },
      { column: 'total', value: null },
    ]);
  });

  it('of a source are traced forward, also by where they stand', async () => {
    const { onTrace } = ask({ kind: 'frame-source' });
    await userEvent.type(await screen.findByLabelText('Place'), 'in.csv:5');
    const byPlace = within(screen.getByRole('form', { name: 'A row by its place' }));
    await userEvent.click(byPlace.getByRole('button', { name: 'Trace forward →' }));
    expect(onTrace).toHaveBeenCalledWith('forward', ['in.csv:5']);
  });

  it('are listed with the names of all columns, and traced by a click', async () => {
    const { onTrace } = ask();
    expect(await screen.findByText(/All 2 rows/)).toBeInTheDocument();
    expect(screen.getByRole('columnheader', { name: 'city' })).toBeInTheDocument();
    expect(screen.getByRole('columnheader', { name: 'total' })).toBeInTheDocument();
    expect(onTrace).not.toHaveBeenCalled();
  });

  it('that no file holds are not listed, with the reason', async () => {
    ask({ items: { ...LISTED, items: [] } });
    expect(await screen.findByText('There is no row.')).toBeInTheDocument();
  });

  it('are not asked for again while a trace is made', async () => {
    ask({ busy: true });
    expect(await screen.findByLabelText('Place')).toBeInTheDocument();
    for (const button of screen.getAllByRole('button', { name: '← Trace back' })) {
      expect(button).toBeDisabled();
    }
  });

  it('are asked for elsewhere where the server has no Spark', async () => {
    ask({ traced: false });
    expect(await screen.findByText(/has no Spark/)).toBeInTheDocument();
    expect(screen.getByText('the extra [spark] brings it')).toBeInTheDocument();
    expect(screen.getByText('lineage back 3#city=value --app local-1')).toBeInTheDocument();
  });

  it('are not asked for by values without the right to read rows', async () => {
    ask({ rows: false });
    expect(await screen.findByRole('note')).toHaveTextContent('the right to see rows');
    expect(screen.queryByLabelText('Value 1')).toBeNull();
    expect(screen.queryByText(/All 2 rows/)).toBeNull();
    expect(screen.getByLabelText('Place')).toBeInTheDocument();
  });

  it('that were set aside are listed by the calls that failed, and traced by these', async () => {
    const { onTraceValues } = ask({ op: 'quarantine' });
    const calls = within(await screen.findByRole('region', { name: 'Calls that failed' }));
    expect(calls.getByText("half(parsed('two', NULL))")).toBeInTheDocument();
    expect(calls.getByText(/^ValueError: invalid literal/)).toBeInTheDocument();
    expect(calls.getByText('DataFrameWriter.parquet at job.py:9')).toBeInTheDocument();
    expect(calls.getByText(/^A function failed on more than 1 call,/)).toBeInTheDocument();
    await userEvent.click(calls.getByRole('button', { name: /^Trace half/ }));
    expect(onTraceValues).toHaveBeenCalledWith('backward', [
      { column: 'lineage_call', value: '1' },
    ]);
    // No file holds them.
    expect(screen.queryByText(/All 2 rows/)).toBeNull();
  });

  it('that were set aside are listed, and not traced, where the server has no Spark', async () => {
    ask({ op: 'quarantine', traced: false });
    const calls = within(await screen.findByRole('region', { name: 'Calls that failed' }));
    expect(calls.queryByRole('button')).toBeNull();
    expect(screen.getByText(/has no Spark/)).toBeInTheDocument();
  });

  it('that were set aside are not shown without the right to read rows', async () => {
    ask({ op: 'quarantine', rows: false });
    expect(await screen.findByRole('note')).toHaveTextContent('the right to see rows');
    expect(screen.queryByRole('region', { name: 'Calls that failed' })).toBeNull();
  });
});
