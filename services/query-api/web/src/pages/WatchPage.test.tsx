import { screen, within } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { json, show } from '../testing/pages';
import { NOTHING, SHOWN_MAX, withEvent } from './watching';

afterEach(() => vi.unstubAllGlobals());

const OPERATORS = [
  { node: '1', name: 'map', op: 'map', call_site: 'job.py:14' },
  { node: '2', name: 'filter', op: 'filter', call_site: 'job.py:15' },
];
const RECORD = {
  event: 'record',
  record: 1,
  operator: 'map (1)',
  partition: 3,
  text: "('Oslo', -4)",
};
const SOURCES = {
  event: 'sources',
  record: 1,
  sources: [
    {
      node: '0',
      name: 'in.txt (0)',
      count: 12,
      items: [{ address: '0#0#1', location: 'in.txt:2', text: 'Oslo -4', binding: 'now' }],
    },
  ],
  exact: true,
  reasons: [],
};
const END = { event: 'end', time_up: false, violations: 1, tested: 5, sees_all: true, tasks: [] };

const partOf = (event: object) => `event: x\nid: 1\ndata: ${JSON.stringify(event)}\n\n`;
const streamOf = (events: object[]) => new Response(events.map(partOf).join(''));

/** A stream that stays open: what is told comes by `tell`. */
function openStream() {
  let tell: (event: object) => void = () => undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      tell = (event) => controller.enqueue(new TextEncoder().encode(partOf(event)));
    },
  });
  return { response: new Response(body), tell: (event: object) => tell(event) };
}

function showJob(streams: Response[], operators = OPERATORS) {
  const asked: unknown[] = [];
  const signals: AbortSignal[] = [];
  const page = show('/apps/a-1/watch', ({ path, method }) => {
    if (method === 'POST' && path.endsWith('/traces')) return streams.shift();
    if (!path.endsWith('/watch')) return undefined;
    if (method === 'GET') return json({ app: 'a-1', refusal: null, operators });
    return streams.shift();
  });
  const stubbed = globalThis.fetch;
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    if (init.method === 'POST' && typeof init.body === 'string') {
      asked.push(JSON.parse(init.body));
      if (init.signal) signals.push(init.signal);
    }
    return stubbed(url, init);
  });
  return { ...page, asked, signals };
}

async function ask(kind: string, condition: string) {
  await userEvent.selectOptions(await screen.findByLabelText('Operator'), 'map (1) at job.py:14');
  await userEvent.selectOptions(screen.getByLabelText('What for'), kind);
  await userEvent.type(screen.getByLabelText('Condition'), `${condition}{Enter}`);
}

describe('a watch of a running job', () => {
  it('shows records at once, and their sources when they are known', async () => {
    const open = openStream();
    const { asked } = showJob([open.response]);
    await ask('Records that fulfil', 'record > 1');
    expect(await screen.findByText('0 records so far; it is watched…')).toBeInTheDocument();
    expect(asked).toEqual([{ node: '1', condition: 'record > 1' }]);
    open.tell(RECORD);
    const row = await screen.findByRole('row', { name: /Oslo/ });
    expect(row).toHaveTextContent('not known yet');
    open.tell(SOURCES);
    expect(await within(row).findByText('in.txt:2')).toBeInTheDocument();
    expect(row).toHaveTextContent('as it is now Oslo -4');
    expect(row).toHaveTextContent('and 11 more rows');
    expect(screen.queryByRole('alert')).toBeNull();
  });

  it('traces a row of a DataFrame when somebody asks', async () => {
    const place = 'f1#k=a,total=24';
    const [source] = SOURCES.sources;
    const trace = { trace: 't-1', exact: false, reasons: ['equal rows'], groups: [source] };
    const onDemand = { ...SOURCES, sources: [], exact: false, reasons: ['on demand'], place };
    const { asked } = showJob([streamOf([RECORD, onDemand, END]), json(trace)]);
    await ask('Records that fulfil', 'total > 20');
    const row = await screen.findByRole('row', { name: /Oslo/ });
    expect(row).not.toHaveTextContent('not exact');
    await userEvent.click(within(row).getByRole('button', { name: '← Its rows' }));
    expect(await within(row).findByText('in.txt:2')).toBeInTheDocument();
    expect(row).toHaveTextContent('not exact: equal rows');
    expect(asked[1]).toMatchObject({ direction: 'backward', start: { places: [place] } });
    expect(within(row).getByRole('link', { name: 'The trace' })).toBeInTheDocument();
  });

  it('is changed and dropped, and each ends its stream', async () => {
    const [first, second] = [openStream(), openStream()];
    const { asked, signals } = showJob([first.response, second.response]);
    await ask('Records that fulfil', 'record > 1');
    await userEvent.click(await screen.findByRole('button', { name: 'Change' }));
    const watch = screen.getByRole('region', { name: 'map (1): record > 1' });
    await userEvent.type(within(watch).getByLabelText('Condition'), '0{Enter}');
    expect(await screen.findByRole('region', { name: 'map (1): record > 10' })).toBeVisible();
    expect(asked).toEqual([
      { node: '1', condition: 'record > 1' },
      { node: '1', condition: 'record > 10' },
    ]);
    expect(signals.map((one) => one.aborted)).toEqual([true, false]);
    await userEvent.click(screen.getByRole('button', { name: 'Drop' }));
    expect(signals.map((one) => one.aborted)).toEqual([true, true]);
    expect(screen.queryByRole('region', { name: /record > 10/ })).toBeNull();
  });

  it('alerts where a record breaks a condition, and says what was seen', async () => {
    showJob([streamOf([RECORD, END])]);
    await ask('Alert where a record breaks', 'record > 0');
    const alert = await screen.findByRole('alert');
    expect(alert).toHaveTextContent('1 record broke the condition; 5 were tested.');
    expect(screen.getByText('alert')).toBeInTheDocument();
  });

  it('goes on where the time of a stream is up, and says what is missing', async () => {
    const timeUp = { ...END, time_up: true, violations: 0, tested: 2 };
    showJob([streamOf([timeUp]), streamOf([RECORD, END])]);
    await ask('Alert where a record breaks', 'record > 0');
    expect(await screen.findByRole('alert')).toHaveTextContent(
      '1 record broke the condition; 7 were tested, others were not seen.',
    );
    expect(screen.getByText(/records that passed meanwhile were not seen/)).toBeInTheDocument();
  });

  it('never seems to have ended well where it was cut off', async () => {
    showJob([streamOf([RECORD])]);
    await ask('Alert where a record takes', '200ms');
    expect(await screen.findByText('It is not watched any more.')).toBeInTheDocument();
    expect(screen.getByText(/The server ended the stream/)).toBeInTheDocument();
  });

  it('ranks tasks by their time, with the records that made them slow', async () => {
    const task = { event: 'task', operator: 'map (1)', records: 9, is_whole: true };
    const deviation = { reason: '3 s with its 9 records, where the median is 1', tests: [] };
    const { asked } = showJob([
      streamOf([
        { ...task, task: 1, partition: 4, seconds: 1 },
        { ...task, task: 2, partition: 7, seconds: 3 },
        { ...RECORD, seconds: 2.5, task: 2 },
        { event: 'reads', operator: 'map (1)', partition: 7, reads: ['in.txt@0+9'] },
        SOURCES,
        { ...END, tasks: [{ task: 2, deviation }] },
      ]),
    ]);
    await userEvent.selectOptions(await screen.findByLabelText('What for'), 'Time of its tasks');
    await userEvent.click(screen.getByRole('button', { name: 'Watch' }));
    const [, first, second] = await screen.findAllByRole('row');
    expect(asked).toEqual([{ node: '1', latency: true }]);
    expect(first).toHaveTextContent('7map (1)3 s3 s with its 9 records, where the median is 1');
    expect(first).toHaveTextContent('reads in.txt@0+9');
    expect(first).toHaveTextContent("('Oslo', -4)2.5 sin.txt:2");
    expect(second).toHaveTextContent('4map (1)1 swith 9 records');
    expect(screen.getByText('2 tasks ended; it is not watched any more.')).toBeInTheDocument();
  });

  it('says why a job can not be watched', async () => {
    show('/apps/a-1/watch', ({ path }) =>
      path.endsWith('/watch')
        ? json({ app: 'a-1', refusal: 'it does not run', operators: [] })
        : undefined,
    );
    expect(await screen.findByText('it does not run')).toBeInTheDocument();
    expect(screen.queryByLabelText('Condition')).toBeNull();
  });

  it('keeps to four at a time, and to so many records of each', async () => {
    showJob(Array.from({ length: 4 }, () => openStream().response));
    for (const at of [1, 2, 3, 4]) {
      await ask('Records that fulfil', `record > ${at}`);
      await userEvent.clear(screen.getByLabelText('Condition'));
    }
    expect(screen.getByRole('button', { name: 'Watch' })).toBeDisabled();
    let told = NOTHING;
    for (let at = 0; at <= SHOWN_MAX; at += 1)
      told = withEvent(told, { ...RECORD, event: 'record', record: at });
    expect(told.records).toHaveLength(SHOWN_MAX);
    expect(withEvent(told, { ...END, event: 'end', time_up: true }).isOver).toBe(true);
  });
});
