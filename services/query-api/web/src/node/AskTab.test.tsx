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

function ask(options: { kind?: string; traced?: boolean; rows?: boolean; busy?: boolean } = {}) {
  const { kind = 'frame', traced = true, rows = true, busy = false } = options;
  vi.stubGlobal('fetch', (url: string) =>
    Promise.resolve(
      url.endsWith('/me')
        ? json({ ...ANN, rows })
        : json({ node: '3', label: '3', columns: COLUMNS, traced }),
    ),
  );
  const onTrace = vi.fn();
  const onTraceValues = vi.fn();
  render(
    <QueryClientProvider client={new QueryClient()}>
      <AskTab
        app="local-1"
        id="3"
        node={aNode({ node: '3', kind, has_items: false })}
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

  it('take a while, which is said', async () => {
    ask({ busy: true });
    expect(await screen.findByText(/takes some seconds/)).toBeInTheDocument();
    for (const button of screen.getAllByRole('button', { name: '← Trace back' })) {
      expect(button).toBeDisabled();
    }
  });

  it('are asked for elsewhere where the server has no Spark', async () => {
    ask({ traced: false });
    expect(await screen.findByText(/has no Spark/)).toBeInTheDocument();
    expect(screen.getByText('lineage back 3#city=value --app local-1')).toBeInTheDocument();
  });

  it('are not asked for by values without the right to read rows', async () => {
    ask({ rows: false });
    expect(await screen.findByRole('note')).toHaveTextContent('the right to see rows');
    expect(screen.queryByLabelText('Value 1')).toBeNull();
    expect(screen.getByLabelText('Place')).toBeInTheDocument();
  });
});
