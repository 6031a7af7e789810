import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, expect, test, vi } from 'vitest';

import type { Trace, TraceStart } from '../api/types';
import { aTrace } from '../testing/samples';
import { LevelCounts } from './LevelCounts';

const answers = vi.fn<typeof fetch>();

afterEach(() => {
  vi.unstubAllGlobals();
  answers.mockReset();
});

const traced = (start: TraceStart, count = 3): Trace => {
  const trace = aTrace();
  return { ...trace, count, request: { ...trace.request, start } };
};

function show(trace: Trace, status = 200, answer: object = {}) {
  vi.stubGlobal('fetch', answers);
  answers.mockResolvedValue(
    new Response(JSON.stringify(answer), {
      status,
      headers: { 'Content-Type': 'application/json' },
    }),
  );
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  return render(
    <QueryClientProvider client={client}>
      <LevelCounts trace={trace} />
    </QueryClientProvider>,
  );
}

test('rows are counted by the level that is chosen, and what lies in none apart', async () => {
  show(traced({ places: ['write#0#1'] }), 200, {
    containers: [{ name: 'in.txt', rows: 2, app: '' }],
    containers_total: 1,
    outside: [{ node: 'collect', rows: 1, app: 'local-1' }],
    exact: true,
    complete: true,
    reasons: [],
  });
  expect(answers).not.toHaveBeenCalled();
  await userEvent.selectOptions(screen.getByLabelText('Count rows by'), 'file');
  expect(await screen.findByRole('row', { name: 'in.txt 2 rows' })).toBeVisible();
  expect(screen.getByRole('row', { name: 'in no file: collect 1 row' })).toBeVisible();
  const [url, request] = answers.mock.lastCall ?? [];
  expect(url).toBe('/v1/answers');
  const sent: unknown = JSON.parse(request?.body as string);
  expect(sent).toMatchObject({ places: ['write#0#1'], by: 'file', until: null });
});

test('why a level is refused is said', async () => {
  show(traced({ places: ['write#0#1'] }), 422, { title: 'x recorded no stage', status: 422 });
  await userEvent.selectOptions(screen.getByLabelText('Count rows by'), 'stage');
  expect(await screen.findByRole('alert')).toHaveTextContent('x recorded no stage');
});

test('a start that is not of places is not counted', () => {
  const { container } = show(traced({ node: 'read', contains: 'a' }));
  expect(container).toBeEmptyDOMElement();
});
