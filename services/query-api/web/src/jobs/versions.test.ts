import { describe, expect, it } from 'vitest';

import { time } from '../lib/format';
import { shownVersions } from './versions';

describe('versions of a dataset', () => {
  it('are shown by what they are, the latest first', () => {
    expect(shownVersions(['7', '8'])).toBe('version 8, version 7');
    expect(shownVersions(['0:5-10 1:0-7'])).toBe('offsets 0:5-10 1:0-7');
    const at = '2026-11-26T04:10:02.250Z';
    expect(shownVersions([at])).toBe(`at ${time(at)}`);
  });

  it('are some of many, and none where none are known', () => {
    expect(shownVersions(['1', '2', '3', '4', '5'])).toBe(
      'version 5, version 4, version 3 and 2 more',
    );
    expect(shownVersions([])).toBe('');
  });
});
