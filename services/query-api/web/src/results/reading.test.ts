import { describe, expect, it } from 'vitest';

import { parseExact, shownText } from './exactJson';
import { ResultError, readResult } from './reading';

describe('JSON of results', () => {
  it('keeps the digits of numbers', () => {
    const text = '{"id": 9007199254740993, "x": 1.0, "y": -1e-7, "z": NaN, "w": [-Infinity, 0]}';
    expect(shownText(parseExact(text))).toBe(text);
  });

  it('takes numbers in texts for texts', () => {
    const value = { 'a 1': '12', b: 'NaN "3" \\ 4', c: ['', '\n5', 'ü\u0000'], d: null, e: true };
    expect(JSON.parse(shownText(parseExact(JSON.stringify(value))))).toEqual(value);
  });

  it.each(['{"a": 1.2.3}', '{"a": 1 2}', '["a', 'NaN1', '[1,]', '{"a": 0x10}', ''])(
    'is refused as JSON.parse refuses it: %s',
    (text) => {
      expect(() => parseExact(text)).toThrow(SyntaxError);
    },
  );
});

const STEPS = {
  app: 'local-1',
  place: 'out/part-00000:1',
  steps: [
    {
      step: 1,
      name: 'textFile',
      call_site: 'job.py:8',
      inputs: [],
      count: 3,
      items: [{ location: 'in.txt:1', text: 'a,1.5' }],
    },
  ],
  exact: true,
  reasons: [],
};

describe('results', () => {
  it('of replays have rows before and after', () => {
    const replay = {
      app: 'local-1',
      node: '3',
      columns: ['city', 'n'],
      rows: [
        { before: { city: 'Oslo', n: 1 }, after: null, state: 'gone' },
        { before: { city: 'Rome', n: 2 }, after: { city: 'Rome', n: 3 }, state: 'changed' },
      ],
      new: [{ city: 'Bonn', n: 1 }],
      witnesses: 5,
      left_out: 1,
      unused: 0,
      read: 'all other rows',
      reproduced: null,
      reasons: ['a limit'],
      uncertain: [],
      to: null,
      jobs: [
        { app: 'local-0', node: '1', output: '/data/staged', changed: 0, gone: 1, new: 2 },
        { app: 'local-0', node: '2', output: '/data/b', rows: 1, witnesses: 3, reproduced: true },
      ],
    };
    expect(readResult(JSON.stringify(replay))).toEqual({
      kind: 'replay',
      app: 'local-1',
      rows: [
        { place: null, before: '{"city": "Oslo", "n": 1}', after: [], state: 'gone' },
        {
          place: null,
          before: '{"city": "Rome", "n": 2}',
          after: ['{"city": "Rome", "n": 3}'],
          state: 'changed',
        },
      ],
      added: ['{"city": "Bonn", "n": 1}'],
      witnesses: 5,
      leftOut: 1,
      readsAll: true,
      jobs: [
        '/data/staged: 0 changed, 1 gone, 2 new',
        '/data/b: 1 row computed again, as they were',
      ],
      notes: ['a limit'],
    });
  });

  it('of programs have all rows that may be the one', () => {
    const row = {
      place: 'out:1',
      before: 'a',
      after: null,
      candidates: ['b', 'c'],
      state: 'unclear',
    };
    const replay = {
      app: 'x',
      node: '1',
      rows: [row],
      witnesses: 1,
      left_out: 0,
      read: 'witnesses',
    };
    const found = readResult(JSON.stringify(replay));
    expect(found).toMatchObject({
      added: [],
      rows: [{ place: 'out:1', before: 'a', after: ['b', 'c'], state: 'unclear' }],
    });
  });

  it('of steps say where they stopped', () => {
    expect(readResult(JSON.stringify(STEPS))).toMatchObject({ kind: 'step', stopped: null });
    const stopped = { ...STEPS, stopped: { step: 1, fulfilling: 2 }, not_tested: ['step 1: 3'] };
    expect(readResult(JSON.stringify(stopped))).toMatchObject({
      stopped: { step: 1, fulfilling: 2 },
      notes: ['step 1: 3'],
    });
  });

  it.each([
    ['no json', 'It is no JSON'],
    ['{"error": "no such row"}', 'ended with an error: no such row'],
    ['[]', 'an object is not there'],
    ['{"a": 1}', 'no result of'],
    [JSON.stringify({ ...STEPS, steps: [] }), 'no steps'],
    [
      JSON.stringify({ ...STEPS, steps: [{ ...STEPS.steps[0], count: '3' }] }),
      'count is not there',
    ],
    [JSON.stringify({ ...STEPS, steps: [{ ...STEPS.steps[0], items: 3 }] }), 'items is not there'],
    ['{"one_minimal": true, "rows": []}', 'outcome is not there'],
  ])('that are none say why: %s', (text, reason) => {
    expect(() => readResult(text)).toThrow(ResultError);
    expect(() => readResult(text)).toThrow(reason);
  });
});
