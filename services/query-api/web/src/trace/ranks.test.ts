import { describe, expect, it } from 'vitest';

import { aSuspect, aTask } from '../testing/samples';
import { ranksOf } from './ranks';

const self = (...nodes: string[]) => new Map(nodes.map((node) => [node, node]));

describe('suspects on the graph', () => {
  it('are the best of each node', () => {
    const rows = [aSuspect('0', { rank: 1, score: 1 }), aSuspect('0', { rank: 2, score: 0.2 })];
    const tasks = [
      aTask('3', { rank: 1, score: 4 }),
      aTask('5', { rank: 2, score: 2 }),
      aTask('3', { rank: 3, score: 0.1 }),
      aTask('6', { rank: 3, score: 0.1 }),
    ];
    expect([...ranksOf(rows, tasks, self('0', '3', '5', '6'))]).toEqual([
      ['0', { rank: 1, what: 'row', heat: 3 }],
      ['3', { rank: 1, what: 'task', heat: 3 }],
      ['5', { rank: 2, what: 'task', heat: 2 }],
      ['6', { rank: 3, what: 'task', heat: 1 }],
    ]);
  });

  it('stand at the fold of their loop, and nowhere where nothing is drawn', () => {
    const tasks = [aTask('4', { rank: 2, score: null }), aTask('9', { rank: 1, score: 1 })];
    expect([...ranksOf([], tasks, new Map([['4', '3']]))]).toEqual([
      ['3', { rank: 2, what: 'task', heat: 3 }],
    ]);
  });

  it('of tasks count before those of rows', () => {
    const rows = [aSuspect('3', { rank: 1 })];
    const tasks = [aTask('3', { rank: 2 })];
    expect(ranksOf(rows, tasks, self('3')).get('3')).toMatchObject({ rank: 2, what: 'task' });
  });
});
