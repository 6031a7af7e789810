import { describe, expect, it } from 'vitest';

import { waitWords } from './SparkWait';

describe('what is said while Spark works', () => {
  it('is what it does, as far as it is known', () => {
    expect(waitWords('the rows', undefined)).toBe('Loading the rows…');
    expect(waitWords('the rows', { state: 'idle', tasks: 0, tasks_done: 0 })).toBe(
      'Loading the rows…',
    );
    expect(waitWords('the rows', { state: 'starting', tasks: 0, tasks_done: 0 })).toContain(
      'Spark starts',
    );
    expect(waitWords('the trace', { state: 'ready', tasks: 8, tasks_done: 3 })).toBe(
      'Spark computes the trace: 3 of 8 tasks…',
    );
  });
});
