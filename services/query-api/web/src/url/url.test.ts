import { describe, expect, it } from 'vitest';

import { formatParams, parseParams } from './params';
import { NO_TRACE, applicationSearch, applicationsSearch, compareSearch } from './searches';

describe('the query of an address', () => {
  it('comes back as it was, numbers as texts', () => {
    const search = {
      node: '4',
      q: 'a & b="c"',
      sel: ['read#0#6', '4@3#15201566949650179872', 'opaque, with comma'],
      unfold: ['8'],
    };
    expect(applicationSearch(parseParams(formatParams(search)))).toMatchObject(search);
  });

  it('holds nothing that is not set', () => {
    expect(formatParams({ node: undefined, q: '', sel: [], row: null })).toBe('');
    expect(formatParams(applicationSearch({}))).toBe('');
  });

  it('keeps a trace through all jobs until the trace is left', () => {
    const search = applicationSearch({ trace: 't1', jobs: 'all', node: '4' });
    expect(formatParams(search)).toBe('?node=4&trace=t1&jobs=all');
    expect(formatParams({ ...search, ...NO_TRACE })).toBe('?node=4');
    expect(applicationSearch({ jobs: 'some' }).jobs).toBeUndefined();
  });

  it('stays readable', () => {
    expect(formatParams({ node: '4', q: 'AA' })).toBe('?node=4&q=AA');
  });

  it('drops what is no choice, and repeats', () => {
    expect(applicationsSearch({ status: 'odd', complete: 'no' })).toEqual({
      q: undefined,
      status: undefined,
      complete: 'no',
    });
    expect(applicationSearch({ sel: ['a', 'a', 'b'] }).sel).toEqual(['a', 'b']);
    expect(compareSearch({ left: 'a', right: 'b', direction: 'sideways' }).direction).toBe(
      'backward',
    );
  });
});
