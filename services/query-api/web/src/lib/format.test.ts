import { expect, it } from 'vitest';

import { count, counted, duration } from './format';

it.each([
  [0.0123, '12 ms'],
  [12.43, '12.4 s'],
  [185, '3 min 5 s'],
  [7800, '2 h 10 min'],
])('%d seconds are %s', (seconds, words) => {
  expect(duration(seconds)).toBe(words);
});

it('counts in words', () => {
  expect(count(424037)).toBe('424,037');
  expect(counted(1, 'row')).toBe('1 row');
  expect(counted(0, 'row')).toBe('0 rows');
  expect(counted(2, 'leaf', 'leaves')).toBe('2 leaves');
});
