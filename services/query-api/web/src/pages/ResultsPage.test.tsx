import { fireEvent, screen, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { show } from '../testing/pages';

afterEach(() => vi.unstubAllGlobals());

const open = async (document: unknown, name = 'result.json') => {
  const { calls } = show('/results', () => undefined);
  const input = await screen.findByLabelText('Open a file');
  await userEvent.upload(input, new File([JSON.stringify(document)], name));
  return calls;
};

const step = (number: number, name: string, text: string, more = {}) => ({
  step: number,
  name,
  call_site: 'job.py:8',
  inputs: number > 1 ? [number - 1] : [],
  count: 1,
  items: [{ location: null, text }],
  ...more,
});
const STEPS = {
  app: 'local-1',
  place: 'out/part-00000:1',
  steps: [step(1, 'textFile', '<img src=x>'), step(2, 'map', "('a', 1.5)", { count: 4 })],
  exact: true,
  reasons: ['a function keeps records back'],
};

describe('results', () => {
  it('of steps go forward and back', async () => {
    const calls = await open(STEPS);
    const values = await screen.findByRole('region', { name: 'Values' });
    expect(values).toHaveTextContent('1. textFile');
    // What a file says is text.
    expect(values).toHaveTextContent('<img src=x>');
    expect(values.querySelector('img')).toBeNull();
    expect(screen.getByRole('button', { name: 'Back' })).toBeDisabled();
    await userEvent.click(screen.getByRole('button', { name: 'Forward' }));
    expect(screen.getByRole('status')).toHaveTextContent('step 2 of 2');
    const second = screen.getByRole('region', { name: 'Values' });
    for (const words of ["('a', 1.5)", 'job.py:8 of 1', 'and 3 values']) {
      expect(second).toHaveTextContent(words);
    }
    expect(screen.getByText('a function keeps records back')).toBeInTheDocument();
    expect(screen.getByRole('button', { name: 'Forward' })).toBeDisabled();
    await userEvent.click(screen.getByRole('button', { name: 'Back' }));
    expect(screen.getByRole('region', { name: 'Values' })).toHaveTextContent('1. textFile');
    // Nothing of it went to the server.
    expect(calls.filter((call) => !call.startsWith('GET /v1/me'))).toEqual([]);
  });

  it('of steps begin where they stopped', async () => {
    await open({ ...STEPS, stopped: { step: 2, fulfilling: 1 }, not_tested: [] });
    const values = await screen.findByRole('region', { name: 'Values' });
    expect(values).toHaveTextContent('2. map');
    expect(values).toHaveTextContent('stopped here: 1 of its records fulfil');
  });

  it('of replays show rows side by side', async () => {
    await open({
      app: 'local-1',
      node: '2',
      rows: [
        { place: 'out:1', before: 'a 3', after: 'a 2', candidates: ['a 2'], state: 'changed' },
        { place: 'out:2', before: 'b 3', after: 'b 3', candidates: ['b 3'], state: 'same' },
        { place: 'out:3', before: 'c', after: null, candidates: ['d', 'e'], state: 'unclear' },
        { place: 'out:4', before: 'f', after: null, candidates: [], state: 'gone' },
      ],
      witnesses: 5,
      left_out: 1,
      read: 'witnesses',
      reasons: [],
    });
    const cells = (name: RegExp) =>
      within(screen.getByRole('row', { name }))
        .getAllByRole('cell')
        .map((cell) => cell.textContent);
    await screen.findByRole('table');
    expect(cells(/out:1/)).toEqual(['changed', 'out:1 a 3', 'a 2']);
    expect(cells(/out:2/)).toEqual(['same', 'out:2 b 3', 'the same']);
    expect(cells(/out:3/)).toEqual(['unclear', 'out:3 c', 'one of: d | e']);
    expect(cells(/out:4/)).toEqual(['gone', 'out:4 f', 'no row']);
    expect(
      screen.getByText(/5 rows that the output is made from, with 1 row left out/),
    ).toBeVisible();
  });

  it('of sifts have the rows, and what it took to find them', async () => {
    show('/results', () => undefined);
    const main = await screen.findByRole('main');
    const sift = {
      rows: [{ location: 'in.csv:4', text: 'Oslo,350' }],
      outcome: [{ city: 'Oslo', total: '350.00' }],
      one_minimal: false,
      stopped: 'the time is over',
      witnesses: 1000,
      runs: 12,
      rows_run: 2400,
      seconds: 3.1,
      failing: [],
    };
    const file = new File([JSON.stringify(sift)], 'sift.json');
    fireEvent.drop(main, { dataTransfer: { files: [file] } });
    expect(await screen.findByText(/1 row of 1,000 .* 12 runs on 2,400 rows/)).toHaveTextContent(
      'in 3.1 s',
    );
    expect(screen.getByText(/may not be the smallest set/)).toBeInTheDocument();
    expect(screen.getByText(/the time is over/)).toBeInTheDocument();
    expect(screen.getByRole('region', { name: 'Rows that fail' })).toHaveTextContent(
      'in.csv:4 Oslo,350',
    );
    expect(screen.getByText('{"city": "Oslo", "total": "350.00"}')).toBeInTheDocument();
  });

  it('that can’t be read say why', async () => {
    await open({ rows: [] }, 'other.json');
    expect(await screen.findByRole('alert')).toHaveTextContent('other.json can’t be shown');
    expect(screen.getByRole('alert')).toHaveTextContent('no result of lineage replay');
  });
});
