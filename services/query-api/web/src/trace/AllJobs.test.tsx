import { screen, within } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { afterEach, expect, test, vi } from 'vitest';

import type { AnswerGroup, AppDetail, Trace, TraceAnswer } from '../api/types';
import { json, show } from '../testing/pages';
import { aGraph, aGroup, aNode, anApp, anItem, aTrace } from '../testing/samples';
import { GROUPS_SHOWN, ITEMS_SHOWN } from './AllJobs';

afterEach(() => vi.unstubAllGlobals());

const aRow = (line: number, text: string | null) =>
  anItem(`0#0#${line}`, { location: `landed.txt:${line}`, text });

const aDataset = (fields: Partial<AnswerGroup>): AnswerGroup => ({
  node: '0',
  name: 'read',
  what: 'textFile',
  path: 'landed.txt',
  count: 1,
  changed: false,
  gone: false,
  standing: 'same',
  items: [aRow(3, 'Oslo;1.5')],
  app: 'local-0',
  next_jobs: [],
  ...fields,
});

type Backward = Extract<TraceAnswer, { direction: 'backward' }>;

const anAnswer = (fields: Partial<Backward> = {}): Backward => ({
  app: 'local-1',
  apps: ['local-1', 'local-0'],
  not_asked: [],
  from: ['out/part-00000:1'],
  start: [],
  exact: true,
  reasons: [],
  complete: true,
  changed: false,
  warnings: [],
  by: 'row',
  containers: [],
  containers_total: 0,
  outside: [],
  direction: 'backward',
  sources: [],
  ...fields,
});

const asForward = ({ sources, ...answer }: Backward): TraceAnswer => ({
  ...answer,
  direction: 'forward',
  sinks: sources,
});

const GRAPH = aGraph(
  [aNode({ node: '0', kind: 'source' }), aNode({ node: '4', kind: 'sink' })],
  '0>4',
);

const DETAIL: AppDetail = {
  ...anApp('local-1'),
  answerable: true,
  refusals: [],
  nodes: 2,
  sources: [],
  sinks: [],
  unknown_parts: [],
  arrays: 0,
};

/** The page of a trace; `answer`: to what is asked through all jobs, if it comes. */
function showTrace(search: string, fields: Partial<Trace>, answer?: () => Response) {
  const asked: unknown[] = [];
  const signals: (AbortSignal | null | undefined)[] = [];
  const page = show(`/apps/local-1?trace=t1${search}`, ({ path }) => {
    if (path === '/v1/applications/local-1') return json(DETAIL);
    if (path === '/v1/applications/local-1/graph') return json(GRAPH);
    if (path === '/v1/traces/t1') return json(aTrace(fields));
    return path === '/v1/answers' ? answer?.() : undefined;
  });
  const stubbed = globalThis.fetch;
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    if (url === '/v1/answers') {
      asked.push(JSON.parse(init.body as string));
      signals.push(init.signal);
    }
    return stubbed(url, init);
  });
  return { ...page, asked, signals };
}

// By labels: roles of a whole page take long.
const theSwitch = () => screen.findByLabelText('Through all jobs', { selector: '[role=switch]' });
/** The choice leaves the address. */
const gone = (router: ReturnType<typeof show>['router']) =>
  vi.waitFor(() => expect(router.state.location.search).not.toHaveProperty('jobs', 'all'));
const section = () => screen.getByLabelText('Through all jobs', { selector: 'section' });

test('the switch asks through all jobs, and is kept in the address', async () => {
  const { router, asked } = showTrace('', {}, () => json(anAnswer({ sources: [aDataset({})] })));
  const control = await theSwitch();
  expect(control).not.toBeChecked();
  expect(asked).toEqual([]);
  await userEvent.click(control);
  expect(await screen.findByLabelText('Rows of landed.txt')).toBeVisible();
  const question = { direction: 'backward', places: ['out/part-00000:1'], app: 'local-1' };
  expect(asked).toEqual([{ ...question, all_jobs: true, limit: ITEMS_SHOWN }]);
  expect(router.state.location.search).toMatchObject({ trace: 't1', jobs: 'all' });
  const command = 'lineage back out/part-00000:1 --app local-1 --all-jobs';
  expect(screen.getByText(command)).toBeVisible();

  await userEvent.click(control);
  await gone(router);
  await vi.waitFor(() => {
    expect(screen.queryByLabelText('Rows of landed.txt')).not.toBeInTheDocument();
    expect(screen.queryByText(command)).not.toBeInTheDocument();
  });
});

test('rows are listed by application and dataset, the first of many', async () => {
  const answer = anAnswer({
    apps: ['local-1', 'local-0', 'local-2'],
    sources: [
      aDataset({ count: 4321, items: [aRow(3, 'Oslo;1.5'), aRow(7, null)] }),
      aDataset({ app: 'local-2', node: '9', path: null, what: '', name: 'collect (9)' }),
      aDataset({ node: '5', path: 'cities.csv', gone: true }),
    ],
  });
  showTrace('&jobs=all', {}, () => json(answer));
  const first = await screen.findByLabelText('local-0');
  expect(section()).toHaveTextContent(
    '4,323 rows in 3 datasets, through 3 applications: exact and complete',
  );
  expect(within(first).getByText('local-0')).toHaveAttribute('href', '/apps/local-0');
  const rows = within(within(first).getByLabelText('Rows of landed.txt'));
  const texts = rows.getAllByRole('listitem').map((row) => row.textContent);
  expect(texts).toEqual(['landed.txt:3Oslo;1.5', 'landed.txt:7']);
  expect(within(first).getByText('2 of 4,321 rows')).toBeVisible();
  expect(within(first).getByText(/file is gone/)).toBeVisible();
  const other = within(screen.getByLabelText('local-2'));
  expect(other.getByText('collect (9)')).toHaveAttribute('href', '/apps/local-2?node=9');
});

test('what limits the answer is said once: reasons, and who was not queried and why', async () => {
  const answer = anAnswer({
    exact: false,
    complete: false,
    reasons: ['local-0: coalesce keeps no order'],
    not_asked: [
      { app: 'local-7', node: '3', reason: 'it read another version' },
      { app: 'local-8', node: '', reason: 'it can not be read' },
    ],
    warnings: [
      'node 3 of local-7 is not queried: it read another version',
      'local-8 is not queried: it can not be read',
      'local-0: in.txt has changed since',
    ],
    sources: [aDataset({})],
  });
  showTrace('&jobs=all', {}, () => json(answer));
  expect(await theSwitch()).toBeChecked();
  const missing = await screen.findByLabelText('Not queried');
  const entries = within(missing).getAllByRole('listitem');
  expect(entries.map((entry) => entry.textContent)).toEqual([
    'local-7 (node 3): it read another version',
    'local-8: it can not be read',
  ]);
  expect(screen.getByText('Not exact: local-0: coalesce keeps no order')).toBeVisible();
  expect(screen.getByText('local-0: in.txt has changed since')).toBeVisible();
  expect(screen.queryByText(/is not queried/)).not.toBeInTheDocument();
  expect(section()).toHaveTextContent('neither exact nor complete');
});

const START = aGroup('0', 1, [aRow(3, null)]);
const FORWARD = asForward(anAnswer({ sources: [aDataset({ path: 'totals/part-00000:1' })] }));

test('a trace forward from a source begins with all that read it', async () => {
  const fields: Partial<Trace> = { direction: 'forward', start: [START] };
  const { asked } = showTrace('&jobs=all', fields, () => json(FORWARD));
  expect(await screen.findByLabelText('Rows of totals/part-00000:1')).toBeVisible();
  const question = { direction: 'forward', places: ['landed.txt:3'], all_jobs: true };
  expect(asked).toEqual([{ ...question, limit: ITEMS_SHOWN }]);
  expect(screen.queryByText(/From local-1 on/)).not.toBeInTheDocument();
  expect(screen.getByText('lineage forward landed.txt:3 --all-jobs')).toBeVisible();
});

test.each([
  ['changed', { ...START, standing: 'changed' }],
  ['has rows that are not listed', { ...START, count: 2 }],
  ['has no places', aGroup('0', 1, [anItem('0#0#3')])],
] as const)('where the source %s it says that others are not gone through', async (_, group) => {
  const fields: Partial<Trace> = { direction: 'forward', start: [group] };
  const { asked } = showTrace('&jobs=all', fields, () => json(FORWARD));
  expect(await screen.findByText(/From local-1 on/)).toBeVisible();
  expect(asked).toMatchObject([{ app: 'local-1', places: ['out/part-00000:1'] }]);
});

test('an application that is left out of answers about several is asked by itself', async () => {
  const fields: Partial<Trace> = { direction: 'forward', start: [START] };
  const answers = [json({ ...FORWARD, app: 'local-2', apps: ['local-2'] }), json(FORWARD)];
  const { asked } = showTrace('&jobs=all', fields, () => answers.shift() ?? json({}, 500));
  expect(await screen.findByText(/From local-1 on/)).toBeVisible();
  expect(asked).toMatchObject([{ places: ['landed.txt:3'] }, { app: 'local-1' }]);
});

test.each([
  [anAnswer(), 'No job made it of a row of a source.'],
  [asForward(anAnswer()), 'It did not go into any output of a job.'],
  [anAnswer({ complete: false }), 'No row was found, and some may be missing.'],
])('where nothing was found that is said (%#)', async (answer, words) => {
  const { direction } = answer;
  showTrace('&jobs=all', { direction }, () => json(answer));
  expect(await screen.findByText(words)).toBeVisible();
  expect(screen.queryByText(/From local-1 on/)).not.toBeInTheDocument();
});

test('why it was refused is said, and it can be tried again', async () => {
  const problem = { title: 'Too much', detail: 'more than 10,000 rows', hint: 'ask for fewer' };
  const answers = [json(problem, 422), json(anAnswer({ sources: [aDataset({})] }))];
  showTrace('&jobs=all', {}, () => answers.shift() ?? json({}, 500));
  expect(await screen.findByRole('alert')).toHaveTextContent('more than 10,000 rowsask for fewer');
  await userEvent.click(screen.getByText('Try again'));
  expect(await screen.findByLabelText('Rows of landed.txt')).toBeVisible();
});

test('an answer that takes long is cancelled by turning the switch off', async () => {
  const { router, signals } = showTrace('&jobs=all', {});
  await userEvent.click(await screen.findByText('Cancel'));
  await vi.waitFor(() => expect(signals[0]?.aborted).toBe(true));
  await gone(router);
});

test('leaving the trace leaves the choice, too', async () => {
  const { router } = showTrace('&jobs=all', {}, () => json(anAnswer()));
  await userEvent.click(await screen.findByLabelText('Leave trace'));
  await gone(router);
});

test('a search for text asks for the rows that it found, as far as all are named', async () => {
  const request = { ...aTrace().request, start: { node: '0', contains: 'Oslo' } };
  const start = [aGroup('0', 2, [anItem('0#0#3'), anItem('0#0#7')])];
  const { asked } = showTrace('&jobs=all', { request, start }, () => json(anAnswer()));
  await screen.findByText('No job made it of a row of a source.');
  expect(asked).toMatchObject([{ places: ['0#0#3', '0#0#7'] }]);
});

test('more rows than are named are not asked for', async () => {
  const request = { ...aTrace().request, start: { node: '0', contains: 'Oslo' } };
  const start = [aGroup('0', 3, [anItem('0#0#3')])];
  const { asked } = showTrace('&jobs=all', { request, start });
  expect(await theSwitch()).toBeDisabled();
  expect(screen.getByText(/more rows than are named/)).toBeVisible();
  expect(asked).toEqual([]);
});

test('of many datasets the first are listed', async () => {
  const sources = Array.from({ length: GROUPS_SHOWN + 1 }, (_, at) =>
    aDataset({ path: `in-${at}.txt`, items: [] }),
  );
  showTrace('&jobs=all', {}, () => json(anAnswer({ sources })));
  expect(await screen.findByText(`${GROUPS_SHOWN} of ${GROUPS_SHOWN + 1} datasets`)).toBeVisible();
});
