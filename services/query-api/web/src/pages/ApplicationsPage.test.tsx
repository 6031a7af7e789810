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
});
