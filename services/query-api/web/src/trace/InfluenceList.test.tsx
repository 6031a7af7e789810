import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, expect, test, vi } from 'vitest';

import type { Trace } from '../api/types';
import { aTrace } from '../testing/samples';
import { InfluenceList } from './InfluenceList';

const answers = vi.fn<typeof fetch>();
const PLACE = '/totals/part-0.parquet#1';

afterEach(() => {
  vi.unstubAllGlobals();
  answers.mockReset();
});

function show(fields: Partial<Trace> = {}, status = 200, answer: object = {}) {
  vi.stubGlobal('fetch', answers);
  answers.mockResolvedValue(
    new Response(JSON.stringify(answer), {
      status,
      headers: { 'Content-Type': 'application/json' },
    }),
  );
  const item = { address: PLACE, location: PLACE, text: '{}', binding: null };
  const start = [{ node: '4', label: 'totals', path: null, what: '', count: 1, items: [item] }];
  const trace = aTrace({
    computed: true,
    start: start as unknown as Trace['start'],
    ...fields,
  });
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  return render(
    <QueryClientProvider client={client}>
      <InfluenceList trace={trace} />
    </QueryClientProvider>,
  );
}

const row = (line: number, fields: object) => ({
  location: `/in.csv:${line}`,
  text: '{"city":"Oslo"}',
  after: null,
  changed: [],
  unsure: [],
  rank: 1,
  tied: 1,
  ...fields,
});

const ask = () =>
  userEvent.click(screen.getByRole('button', { name: 'What if a row were missing' }));

test('what a row would be without others is asked for, and shown in its very digits', async () => {
  show({}, 200, {
    witnesses: 5,
    warnings: [],
    rows: [
      row(2, {}),
      row(3, {
        after: '{"city":"Oslo","total":9007199254740993,"mean":1.5}',
        changed: ['total', 'mean', 'largest'],
        unsure: ['mean'],
        rank: 2,
        tied: 2,
      }),
      row(4, { after: '{"city":"Oslo"}', rank: 4 }),
    ],
  });
  expect(answers).not.toHaveBeenCalled();
  await ask();
  expect(await screen.findByText('no row')).toBeVisible();
  expect(
    screen.getByText('total: 9007199254740993, mean: 1.5 (approximate), largest: null'),
  ).toBeVisible();
  expect(screen.getByText('(2 tied)')).toBeVisible();
  expect(screen.getByText('the same')).toBeVisible();
  expect(screen.getByText(/The first 3 of 5/)).toBeVisible();
  const [url, request] = answers.mock.lastCall ?? [];
  expect(url).toBe('/v1/answers/influence');
  expect(JSON.parse(request?.body as string)).toMatchObject({ app: 'local-1', place: PLACE });
});

test('what has no closed form says so', async () => {
  show({}, 422, { title: 'Refused', detail: 'no closed form: a column is computed' });
  await ask();
  expect(await screen.findByText(/not known here: no closed form: a column/)).toBeVisible();
});

test('nothing is offered for rows of RDDs, forward traces and several rows', () => {
  const several = [{ count: 2, items: [] }] as unknown as Trace['start'];
  expect(show({ computed: false }).container).toBeEmptyDOMElement();
  expect(show({ direction: 'forward' }).container).toBeEmptyDOMElement();
  expect(show({ start: several }).container).toBeEmptyDOMElement();
});
