import { describe, expect, it } from 'vitest';

import { excerpt, parts, tokensOf } from './highlight';

const NONE = new Set<string>();

describe('marks', () => {
  it('give the text again', () => {
    const text = '2013,4,19,606,1725,761,AA,1901,N3DGAA,JFK,IAH';
    const found = parts(text, 'AA', new Set(['IAH', '761']));
    expect(found.map((part) => part.text).join('')).toBe(text);
  });

  it('find each place of what was searched for', () => {
    expect(parts('AA,N3DGAA', 'AA', NONE)).toEqual([
      { text: 'AA', mark: 'search' },
      { text: ',N3DG', mark: null },
      { text: 'AA', mark: 'search' },
    ]);
  });

  it('find whole words that rows share', () => {
    const shared = tokensOf(['125.4 min late | AA to IAH | worst 783 on 2013-04-19']);
    const found = parts('2013,4,783,AA,N783A', '', shared).filter((part) => part.mark === 'shared');
    expect(found.map((part) => part.text)).toEqual(['783', 'AA']);
  });

  it('leave a text without anything to mark alone', () => {
    expect(parts('a b', '', NONE)).toEqual([{ text: 'a b', mark: null }]);
    expect(parts('', 'x', NONE)).toEqual([]);
  });
});

describe('words worth finding again', () => {
  it('are not single letters or digits', () => {
    expect(tokensOf(["('a', 3)", 'x 42', null])).toEqual(new Set(['42']));
  });
});

describe('an excerpt', () => {
  it('shows what was searched for', () => {
    const text = `${'x'.repeat(200)}needle`;
    expect(excerpt(text, 'needle', 50)).toBe(`…${'x'.repeat(24)}needle`);
  });

  it('is the text where there is room, or nothing was searched for', () => {
    expect(excerpt('short needle', 'needle', 50)).toBe('short needle');
    expect(excerpt('x'.repeat(99), '', 50)).toBe('x'.repeat(99));
  });
});
