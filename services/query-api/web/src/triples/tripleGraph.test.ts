import { describe, expect, it } from 'vitest';

import type { TripleTrace } from '../api/types';
import {
  FIRST_ITEMS,
  GROWN_ITEMS,
  drawnItems,
  itemOf,
  keyOf,
  trailOf,
  tripleGraph,
} from './tripleGraph';

const traceOf = (item: string, ...triples: [string, string, string][]): TripleTrace => ({
  data_set: 's',
  direction: 'backward',
  item,
  items: [],
  items_count: 0,
  triples: triples.map(([src, dst, op]) => ({ src, dst, op })),
  count: triples.length,
  method: 'rq',
  component_triples: triples.length,
  reason: '',
});

describe('keys of items', () => {
  it('name one item, whatever it is', () => {
    for (const item of ['', 'a b', 'é%:>"', 'item:x']) expect(itemOf(keyOf(item))).toBe(item);
    expect(itemOf('node:1')).toBeNull();
    expect(itemOf('item:%')).toBeNull();
  });
});

describe('a trace of triples', () => {
  it('is drawn with all operations between two items as one line', () => {
    const trail = trailOf(traceOf('c', ['a', 'b', 'x'], ['b', 'c', 'y'], ['b', 'c', 'z']));
    const { nodes, links } = tripleGraph('c', trail, drawnItems('c', trail, []));
    expect(links).toHaveLength(2);
    expect(nodes.map(({ name, description }) => [name, description])).toEqual([
      ['c', '2 operations'],
      ['b', 'by x'],
      ['a', ''],
    ]);
  });

  it('keeps cycles and leaves out lines from an item to itself', () => {
    const trail = trailOf(traceOf('a', ['a', 'a', 'x'], ['a', 'b', 'x'], ['b', 'a', 'x']));
    const { nodes, links } = tripleGraph('a', trail, drawnItems('a', trail, []));
    expect(nodes).toHaveLength(2);
    expect(links).toHaveLength(2);
    expect(nodes.map(({ more }) => more)).toEqual([
      { upstream: 0, downstream: 0 },
      { upstream: 0, downstream: 0 },
    ]);
  });

  it('grows where it is asked to', () => {
    const parents = Array.from({ length: 200 }, (_, n): [string, string, string] => [
      `p${n}`,
      'a',
      'x',
    ]);
    const trail = trailOf(traceOf('a', ...parents));
    const first = drawnItems('a', trail, []);
    expect(first.size).toBe(FIRST_ITEMS);
    const [node] = tripleGraph('a', trail, first).nodes;
    expect(node?.more?.upstream).toBe(201 - FIRST_ITEMS);
    expect(drawnItems('a', trail, ['a']).size).toBe(FIRST_ITEMS + GROWN_ITEMS);
    const chosen = drawnItems('a', trail, ['p199', 'nothing']);
    expect([chosen.size, chosen.has('p199')]).toEqual([FIRST_ITEMS + 1, true]);
  });
});
