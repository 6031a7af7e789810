import { screen, waitFor, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { json, show, type Answer } from '../testing/pages';
import { aSuspect, aTask, suspects, suspectTasks } from '../testing/samples';

afterEach(() => vi.unstubAllGlobals());

const ROWS = suspects({
  outputs: 2,
  good: 1,
  total: 5,
  suspected: 2,
  items: [
    aSuspect('0', {
      location: 'in.txt:4',
      text: '<b>4,bad</b>',
      outputs: 2,
      tied: 2,
      score: null,
    }),
    aSuspect('1', { rank: 3, score: 0.5, good_outputs: 1 }),
  ],
});
const TASKS = suspectTasks({
  outputs: 2,
  good: ['write#0#9'],
  tasks: [
    aTask('5', {
      partition: 3,
      outputs: 2,
      deviations: [
        {
          measure: 'outputs a record',
          value: 1.4,
          of: 'tasks',
          count: 6,
          median: 1,
          distance: 40,
          tests: [],
          step: ['b', 'map'],
          reason: '1.4 outputs a record, where the median of 6 tasks is 1',
        },
      ],
    }),
  ],
  tasks_total: 1,
});
const ROUTES = { rows: '/v1/applications/local-1/suspects', tasks: '/v1/answers/suspects' };
const answer: Answer = ({ path }) =>
  path === ROUTES.rows ? json(ROWS) : path === ROUTES.tasks ? json(TASKS) : undefined;
const AT = '/apps/local-1/suspects?place=write%230%230&place=write%230%231&good=write%230%239';

describe('suspects', () => {
  it('have their rank, and the reasons in words and numbers', async () => {
    show(AT, answer);
    const row = await screen.findByRole('row', { name: /in\.txt:4/ });
    for (const words of ['(2 tied)', 'score unbounded', '2 of 2 bad, 0 of 1 good', '<b>4,bad</b>'])
      expect(row).toHaveTextContent(words);
    const other = screen.getByRole('row', { name: /1#0#0/ });
    expect(other).toHaveTextContent('3 score 0.50');
    expect(other).toHaveTextContent('1 of 2 bad, 1 of 1 good');
    const task = await screen.findByRole('row', { name: /task 3 of map/ });
    expect(task).toHaveTextContent('on the way to 2 of 2 bad and 0 of 1 good outputs');
    expect(task).toHaveTextContent('1.4 outputs a record, where the median of 6 tasks is 1');
  });

  it('are ranked by rows that are called bad or good, of which one at least is bad', async () => {
    const { router } = show(AT, answer);
    const chosen = await screen.findByRole('list', { name: 'Chosen outputs' });
    const toggle = (row: string, word: string) =>
      within(within(chosen).getByRole('group', { name: row })).getByRole('button', { name: word });
    expect(toggle('write#0#9', 'Good')).toHaveAttribute('aria-pressed', 'true');
    await userEvent.click(toggle('write#0#1', 'Good'));
    const search = () => new URLSearchParams(router.state.location.searchStr);
    await waitFor(() => expect(search().getAll('good')).toEqual(['write#0#9', 'write#0#1']));
    expect(search().getAll('place')).toEqual(['write#0#0']);
    expect(toggle('write#0#0', 'Good')).toBeDisabled();
  });

  it('of rows of DataFrames are asked for without tasks', async () => {
    const { items, ...others } = ROWS;
    const [item = aSuspect('0')] = items;
    const { label: name, ...input } = item;
    const ranked = { ...TASKS, ...others, good: ['out#9'], items: [{ ...input, name }] };
    const { router, calls } = show(`${AT}&of=frames`, ({ path }) =>
      path === ROUTES.tasks ? json(ranked) : undefined,
    );
    const row = await screen.findByRole('row', { name: /in\.txt:4/ });
    expect(row).toHaveTextContent('2 of 2 bad, 0 of 1 good');
    expect(within(row).queryByRole('link')).toBeNull();
    expect(screen.queryByText('Tasks on the way')).toBeNull();
    expect(calls.filter((call) => call.includes('suspects'))).toEqual([`POST ${ROUTES.tasks}`]);
    const chosen = within(screen.getByRole('group', { name: 'write#0#1' }));
    await userEvent.click(chosen.getByRole('button', { name: 'Good' }));
    await waitFor(() => expect(router.state.location.search).toMatchObject({ of: 'frames' }));
  });

  it('of rows stay where tasks are too many', async () => {
    show(AT, (request) =>
      request.path === ROUTES.tasks
        ? json({ detail: 'the application has too many blocks' }, 413)
        : answer(request),
    );
    expect(await screen.findByRole('row', { name: /in\.txt:4/ })).toBeInTheDocument();
    expect(await screen.findByText(/too many blocks/)).toBeInTheDocument();
  });
});
