import { expect, it } from 'vitest';

import { amount, count, counted, duration, elapsed, time } from './format';

it.each([
  [0.0123, '12 ms'],
  [12.43, '12.4 s'],
  [185, '3 min 5 s'],
  [7800, '2 h 10 min'],
])('%d seconds are %s', (seconds, words) => {
  expect(duration(seconds)).toBe(words);
});

it('reads times of the API', () => {
  expect(elapsed('2026-11-26T04:10:00.000Z', '2026-11-26T04:11:14.300Z')).toBeCloseTo(74.3);
  expect(time('2026-11-26T12:10:00.250Z')).toContain('2026');
});

it('counts in words', () => {
  expect(count(424037)).toBe('424,037');
  expect(counted(1, 'row')).toBe('1 row');
  expect(counted(0, 'row')).toBe('0 rows');
  expect(counted(2, 'leaf', 'leaves')).toBe('2 leaves');
});

it.each([
  [{ rows: 1, bytes: 0 }, '1 row, 0 bytes'],
  [{ rows: null, bytes: 31406 }, '31.4 kB'],
  [{ rows: 1200, bytes: null }, '1,200 rows'],
  [{ rows: null, bytes: null }, 'an unknown amount'],
  [{ bytes: 1_500_000 }, '1.5 MB'],
])('an amount %o is shown as %s', (of, words) => {
  expect(amount(of)).toBe(words);
});
