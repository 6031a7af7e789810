import { describe, expect, it } from 'vitest';

import { aGraph, aNode } from '../testing/samples';
import { displayGraph, loopOf } from './display';

const turns = { members: ['2', '4', '6'] };
const folded = aGraph(
  [
    aNode({ node: '1' }),
    aNode({ node: '2', ...turns, flows: 30 }),
    aNode({ node: '3', members: ['3', '5', '7'] }),
    aNode({ node: '8' }),
  ],
  '1>2',
  '2>3',
  '3>2',
  '3>8',
);
const unfolded = aGraph(
  ['1', '2', '3', '4', '5', '6', '7', '8'].map((node) => aNode({ node, flows: 10 })),
  '1>2',
  '2>3',
  '3>4',
  '4>5',
  '5>6',
  '6>7',
  '7>8',
);
const ids = (nodes: { node: string }[]) => nodes.map(({ node }) => node);
const pairs = (links: { src: string; dest: string }[]) =>
  links.map(({ src, dest }) => `${src}>${dest}`);

describe('a folded graph', () => {
  const graph = displayGraph(folded, undefined, []);

  it('shows loops once', () => {
    expect(ids(graph.nodes)).toEqual(['1', '2', '3', '8']);
    expect(pairs(graph.links)).toEqual(['1>2', '2>3', '3>2', '3>8']);
  });

  it('knows the fold of every turn', () => {
    expect(graph.standsFor.get('6')).toBe('2');
    expect(graph.standsFor.get('8')).toBe('8');
  });
});

describe('an opened loop', () => {
  const graph = displayGraph(folded, unfolded, ['3']);

  it('shows each turn of all that the loop made', () => {
    expect(ids(graph.nodes)).toEqual(['1', '2', '4', '6', '3', '5', '7', '8']);
    expect(pairs(graph.links)).toEqual(pairs(unfolded.links));
    expect(graph.nodes.find(({ node }) => node === '6')).toMatchObject({
      openedFrom: '2',
      flows: 10,
    });
  });

  it('stays folded until its turns are there', () => {
    expect(ids(displayGraph(folded, undefined, ['2']).nodes)).toEqual(['1', '2', '3', '8']);
  });

  it('leaves other nodes alone', () => {
    expect(ids(displayGraph(folded, unfolded, ['1', 'no such']).nodes)).toHaveLength(4);
  });
});

describe('a loop', () => {
  it('ends where nodes were not made as often', () => {
    expect(loopOf(folded, '2')).toEqual(new Set(['2', '3']));
    expect(loopOf(folded, '8')).toEqual(new Set());
  });
});
