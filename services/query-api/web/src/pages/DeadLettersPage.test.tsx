import { screen } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { DeadLetter } from '../api/types';
import { json, show } from '../testing/pages';
import { commandOf } from './DeadLettersPage';

afterEach(() => vi.unstubAllGlobals());

const LETTER: DeadLetter = {
  letter: '1:7',
  place: 'lineage-flow/1/1207',
  app: 'local-1',
  service: 'linker',
  reason: 'unknown version 9',
  at: '2026-11-26T04:10:00.000Z',
  size: 211,
  cut: false,
};

const letters = (items: DeadLetter[], total = items.length) =>
  show('/dead-letters?app=local-1', () => json({ items, total }));

describe('dead letters', () => {
  it('say where they were, whose they are and why they are here', async () => {
    const { calls } = letters([LETTER], 12);
    const row = await screen.findByRole('row', { name: /lineage-flow/ });
    for (const words of ['lineage-flow/1/1207', 'local-1', 'linker', 'unknown version 9']) {
      expect(row).toHaveTextContent(words);
    }
    expect(screen.getByText(/1 of 12/)).toBeInTheDocument();
    expect(calls).toContain('GET /v1/dead-letters?app=local-1&limit=100');
  });

  it('that are none say so', async () => {
    letters([]);
    expect(await screen.findByText('There are none.')).toBeInTheDocument();
  });

  it('need a pipeline', async () => {
    show('/dead-letters', () => json({ detail: 'this server knows no Kafka' }, 404));
    expect(await screen.findByText('There is no pipeline here.')).toBeInTheDocument();
    expect(screen.queryByRole('alert')).toBeNull();
  });

  it('that were cut are looked at, others sent again', () => {
    expect(commandOf(LETTER)).toBe('lineage dlq replay 1:7');
    expect(commandOf({ ...LETTER, cut: true })).toBe('lineage dlq show 1:7');
  });
});
