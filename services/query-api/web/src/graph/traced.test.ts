import { expect, it } from 'vitest';

import { aGraph, aGroup, aNode, aTrace } from '../testing/samples';
import { displayGraph } from './display';
import { tracedGraph } from './traced';

const graph = displayGraph(
  aGraph(
    [
      aNode({ node: '0' }),
      aNode({ node: '1', has_items: false }),
      aNode({ node: '2', members: ['2', '3'] }),
      aNode({ node: '4', has_items: false }),
      aNode({ node: '5' }),
      aNode({ node: '9' }),
    ],
    '0>1',
    '1>2',
    '2>4',
    '4>5',
    '2>9',
    '1>9',
  ),
  undefined,
  [],
);
const trace = aTrace({
  start: [aGroup('5', 1)],
  groups: [aGroup('0', 12)],
  passed: [
    { node: '2', label: '2', count: 3 },
    { node: '3', label: '3', count: 4 },
    { node: '0', label: '0', count: 12 },
  ],
});

it('counts the turns of a loop together, and nothing twice', () => {
  expect(Object.fromEntries(tracedGraph(graph, trace).counts)).toEqual({ 5: 1, 0: 12, 2: 7 });
});

it('takes in nodes between, which keep no items, and no others', () => {
  expect([...tracedGraph(graph, trace).onTheWay].sort()).toEqual(['0', '1', '2', '4', '5']);
});
