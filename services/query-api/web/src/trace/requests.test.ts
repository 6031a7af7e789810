import { describe, expect, it } from 'vitest';

import { aGroup, aTrace, anItem } from '../testing/samples';
import { canGoOn, inSteps, ofMatches, ofPlaces, startWords } from './requests';
import { notesOf } from './TraceNotes';

describe('requests', () => {
  it('go to the ends, or in steps from the same start', () => {
    const whole = ofPlaces('backward', ['write#0#1']);
    expect(whole).toEqual({
      direction: 'backward',
      start: { places: ['write#0#1'] },
      until: 'ends',
      steps: null,
    });
    expect(inSteps(whole, 2)).toEqual({ ...whole, steps: 2 });
    expect(ofMatches('forward', '0', 'AA').start).toEqual({ node: '0', contains: 'AA' });
  });
});

describe('a further step', () => {
  const links = [
    { src: '0', dest: '1' },
    { src: '1', dest: '2' },
  ];

  it('is there as long as something is linked that way', () => {
    expect(canGoOn(aTrace({ groups: [aGroup('1', 1)] }), links)).toBe(true);
    expect(canGoOn(aTrace({ groups: [aGroup('0', 1)] }), links)).toBe(false);
    expect(canGoOn(aTrace({ direction: 'forward', groups: [aGroup('2', 1)] }), links)).toBe(false);
  });
});

describe('where a trace starts', () => {
  it('is given by location where there is one', () => {
    const item = anItem('write#0#0', { location: 'out/part-00000:1' });
    const request = ofPlaces('backward', ['write#0#0', 'write#0#3']);
    expect(startWords(aTrace({ request, start: [aGroup('4', 2, [item])] }))).toBe(
      'out/part-00000:1 and 1 more',
    );
  });

  it('is given by what was searched for', () => {
    expect(startWords(aTrace({ request: ofMatches('forward', '0', 'AA') }))).toBe('rows with “AA”');
  });
});

describe('notes', () => {
  it('say what limits an answer', () => {
    expect(notesOf(aTrace())).toEqual([]);
    const notes = notesOf(
      aTrace({ exact: false, reasons: ['pipe'], complete: false, changed: true, warnings: ['w'] }),
    );
    expect(notes).toHaveLength(4);
    expect(notes[0]).toContain('pipe');
  });
});
