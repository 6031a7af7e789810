/** What is large: a graph of 5,000 nodes, and a count over a million rows. */

import type { GraphLink, GraphNode, Item } from '../src/api/types';
import {
  chained,
  dice,
  ended,
  finder,
  listed,
  made,
  type Items,
  type Place,
  type Program,
} from './program.ts';
import { aTime } from '../src/testing/samples.ts';

/** Stages of some nodes each, every stage behind one or two before it. */
export function generated(app: string, startedAt: number, size: number): Program {
  const random = dice(7);
  const nodes: GraphNode[] = [];
  const links: GraphLink[] = [];
  const stages: { first: string; last: string }[] = [];
  const ops = ['map', 'filter', 'flatMap', 'mapValues', 'keyBy'];
  while (nodes.length < size) {
    const stage = stages.length;
    const length = Math.min(3 + Math.floor(random() * 9), size - nodes.length);
    const ids = Array.from({ length }, (_, index) => String(nodes.length + index));
    const isSource = stage < 12;
    ids.forEach((node, index) => {
      const begins = index === 0;
      const isOutput = nodes.length === size - 1;
      const step = ops[Math.floor(random() * ops.length)] ?? 'map';
      const name = isOutput
        ? 'saveAsTextFile'
        : begins
          ? isSource
            ? 'textFile'
            : 'reduceByKey'
          : step;
      nodes.push(
        made(node, name, `generated.py:${10 + stage}`, {
          ...(begins && !isSource && { kind: 'shuffle' }),
          ...(isOutput && { kind: 'sink', label: 'write', path: 'totals' }),
          ...(begins && isSource && { label: `read:part${stage}`, path: `data/part${stage}.csv` }),
          has_items: false,
          stage: String(stage),
          flows: Math.floor(random() * 90_000),
        }),
      );
      const before = ids[index - 1];
      if (before !== undefined) links.push({ src: before, dest: node });
    });
    const [first = '', last = ''] = [ids[0], ids.at(-1)];
    if (!isSource) {
      for (let parents = 0; parents < 1 + Math.floor(random() * 2); parents += 1) {
        const from = stages[Math.max(0, stage - 12 - Math.floor(random() * 36))];
        if (from !== undefined) links.push({ src: from.last, dest: first });
      }
    }
    stages.push({ first, last });
  }
  return {
    detail: ended(
      {
        app,
        name: 'generated program of 5,000 nodes',
        started_at: aTime(startedAt),
        flows: 214_000_123,
        associations: 399_120_441,
        exact: false,
      },
      1830,
    ),
    nodes,
    links,
    items: new Map(),
    parents: () => [],
    children: () => [],
    find: () => null,
  };
}

/** One number counted over a million clicks: each of them is behind it. */
export function clicks(app: string, startedAt: number, size: number): Program {
  const users = ['ann', 'ben', 'cho', 'dee', 'eli', 'fay', 'gus'];
  const click = (index: number): Item => {
    const partition = Math.floor((index * 8) / size);
    const row = index - Math.ceil((partition * size) / 8);
    const second = String(index % 60).padStart(2, '0');
    const minute = String(Math.floor(index / 60) % 60).padStart(2, '0');
    return {
      address: `read#${partition}#${row}`,
      location: `clicks/part-${partition}.log:${row + 1}`,
      text: `2026-11-21T09:${minute}:${second}Z ${users[index % 7] ?? ''} GET /item/${(index * 7919) % 100_003} 200`,
    };
  };
  const total: Item = { address: 'write#0#0', location: 'total/part-00000:1', text: `${size}` };
  const items = new Map<string, Items>([
    ['0', { count: size, at: click }],
    ['1', listed([total])],
  ]);
  const findTotal = finder(new Map([['1', listed([total])]]));
  return {
    detail: ended({ app, name: 'count clicks', started_at: aTime(startedAt), flows: size }, 12.9),
    nodes: [
      made('0', 'textFile', 'clicks.py:4', {
        path: 'clicks/part-*.log',
        stage: '0',
        partitions: 8,
      }),
      made('1', 'saveAsTextFile', 'clicks.py:5', {
        path: 'total',
        stage: '0',
        partitions: 1,
        flows: size,
      }),
    ],
    links: chained(0, 1),
    items,
    parents: (node): Place[] =>
      node === '1' ? Array.from({ length: size }, (_, index) => ({ node: '0', index })) : [],
    children: (node) => (node === '0' ? [{ node: '1', index: 0 }] : []),
    find: (address) => {
      const match = /^read#(\d)#(\d+)$/.exec(address);
      if (match === null) return findTotal(address);
      return { node: '0', index: Math.ceil((Number(match[1]) * size) / 8) + Number(match[2]) };
    },
  };
}
