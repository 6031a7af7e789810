import { act, screen } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { APPLICATIONS_POLL_MS } from '../api/queries';
import { ANN, json, show } from '../testing/pages';
import { anApp } from '../testing/samples';

beforeEach(() => vi.useFakeTimers({ shouldAdvanceTime: true }));
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const list = (items: unknown[]) => json({ items, next: null, total: items.length });

describe('applications', () => {
  it('that are none are made by a command for this very store', async () => {
    const store = 'sqlite:////home/ann/it is here/lineage.db';
    show('/', () => list([]), { ...ANN, store });
    expect(await screen.findByText('No application yet.')).toBeInTheDocument();
    expect(screen.getByText(`lineage --store '${store}' run job.py`)).toBeInTheDocument();
  });

  it('are run into the store that the environment names where the server keeps it to itself', async () => {
    show('/', () => list([]));
    expect(await screen.findByText('lineage run job.py')).toBeInTheDocument();
  });

  it('appear by themselves', async () => {
    let items: unknown[] = [];
    show('/', () => list(items));
    await screen.findByText('No application yet.');
    items = [anApp('local-7', { name: 'report.py' })];
    await act(() => vi.advanceTimersByTimeAsync(APPLICATIONS_POLL_MS + 100));
    expect(await screen.findByRole('link', { name: 'report.py' })).toBeInTheDocument();
    items = [anApp('local-8', { name: 'another.py' }), ...items];
    await act(() => vi.advanceTimersByTimeAsync(APPLICATIONS_POLL_MS + 100));
    expect(await screen.findByRole('link', { name: 'another.py' })).toBeInTheDocument();
  });

  it('are searched by dataset and day, and it is said which were not', async () => {
    const page = { items: [anApp('local-7')], next: null, total: 1 };
    const { calls } = show('/?q=orders&by=dataset&since=2026-11-26', () =>
      json({ ...page, searched: 20, searched_of: 5000, withheld: 2 }),
    );
    expect(
      await screen.findByText(/The latest 20 of 5,000 applications were searched/),
    ).toHaveTextContent('2 applications could not be searched.');
    const query = new URLSearchParams(
      calls.find((call) => call.includes('/applications'))?.split('?')[1],
    );
    expect(query.get('dataset')).toBe('orders');
    expect(query.get('search')).toBeNull();
    expect(query.get('since')).toBe(new Date('2026-11-26T00:00:00').toISOString());
    // Each look at all applications is asked for by somebody.
    const asked = calls.length;
    await act(() => vi.advanceTimersByTimeAsync(2 * APPLICATIONS_POLL_MS));
    expect(calls).toHaveLength(asked);
    expect(screen.getByLabelText('Search by')).toHaveValue('dataset');
  });
});
