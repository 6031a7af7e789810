import { describe, expect, it } from 'vitest';

import { aGroup, aTrace, anItem } from '../testing/samples';
import { allJobsCommand, quoted, traceCommands } from './cli';

const request = aTrace().request;

describe('the command of a trace', () => {
  it('names place and application', () => {
    expect(traceCommands(aTrace())).toBe('lineage back out/part-00000:1 --app local-1');
    expect(traceCommands(aTrace({ direction: 'forward' }))).toBe(
      'lineage forward out/part-00000:1 --app local-1',
    );
  });

  it('goes one step', () => {
    const trace = aTrace({ request: { ...request, steps: 1 } });
    expect(traceCommands(trace)).toBe('lineage back out/part-00000:1 --app local-1 --step');
  });

  it('names the nodes that several steps lead to, as the command line takes one step only', () => {
    const trace = aTrace({
      request: { ...request, steps: 2 },
      groups: [aGroup('2', 4), aGroup('7', 1)],
    });
    expect(traceCommands(trace)).toBe(
      'lineage back out/part-00000:1 --app local-1 --to 2\n' +
        'lineage back out/part-00000:1 --app local-1 --to 7',
    );
  });

  it('goes through all jobs, all the way', () => {
    const trace = aTrace({ direction: 'forward', request: { ...request, steps: 2 } });
    expect(allJobsCommand(trace, null)).toBe(
      'lineage forward out/part-00000:1 --app local-1 --all-jobs',
    );
    expect(allJobsCommand(trace, ['in.txt:3'])).toBe('lineage forward in.txt:3 --all-jobs');
  });

  it('stops at a node', () => {
    const trace = aTrace({ request: { ...request, until: '3' } });
    expect(traceCommands(trace)).toBe('lineage back out/part-00000:1 --app local-1 --to 3');
  });

  it('stops at the node on the way that is looked at, but not at the end', () => {
    const trace = aTrace({
      groups: [aGroup('0', 4)],
      passed: [
        { node: '0', label: 'read', count: 4 },
        { node: '3', label: '3', count: 1 },
      ],
    });
    expect(traceCommands(trace, '3')).toMatch(/ --to 3$/);
    expect(traceCommands(trace, '0')).not.toMatch(/--to/);
  });

  it('of a search names the rows that were found, if all are known', () => {
    const start = { node: '0', contains: 'AA' };
    const found = [aGroup('0', 2, [anItem('read#0#1'), anItem('read#0#2')])];
    expect(traceCommands(aTrace({ request: { ...request, start }, start: found }))).toBe(
      'lineage back read#0#1 read#0#2 --app local-1',
    );
    const many = [aGroup('0', 40, [anItem('read#0#1')])];
    expect(traceCommands(aTrace({ request: { ...request, start }, start: many }))).toBeNull();
  });
});

describe('a word for the shell', () => {
  it.each([
    ['out/part-00000:1', 'out/part-00000:1'],
    ['read#0#6', 'read#0#6'],
    ['4@3#15201', '4@3#15201'],
    ['my file.txt:1', "'my file.txt:1'"],
    ["it's", "'it'\\''s'"],
    ['#top', "'#top'"],
    ['~/a', "'~/a'"],
    ['-x', "'-x'"],
    ['$(rm)', "'$(rm)'"],
  ])('%s is %s', (word, expected) => {
    expect(quoted(word)).toBe(expected);
  });
});
