/** Ten turns of PageRank over a few links: what loops made is folded. */

import type { GraphLink, Item } from '../src/api/types';
import { Derivations, finder, graphNode, listed, type Items, type Program } from './program.ts';

const TURNS = 10;
const EDGES = [
  ['a', 'b'],
  ['a', 'c'],
  ['b', 'c'],
  ['c', 'a'],
  ['d', 'c'],
  ['d', 'a'],
  ['e', 'd'],
  ['f', 'e'],
] as const;
const PAGES = ['a', 'b', 'c', 'd', 'e', 'f'];
const FIRST_TURN = 6;
const PER_TURN = 7;
/** What a turn makes: op, kind, the line of the program, whether it keeps items. */
const TURN = [
  ['join', 'operator', 'map side', 'pagerank.py:9', true],
  ['join', 'operator', 'map side', 'pagerank.py:9', true],
  ['join', 'shuffle', 'reduce side', 'pagerank.py:9', true],
  ['flatMap', 'operator', '', 'pagerank.py:9', false],
  ['reduceByKey', 'operator', 'map side', 'pagerank.py:10', true],
  ['reduceByKey', 'shuffle', 'reduce side', 'pagerank.py:10', true],
  ['mapValues', 'operator', '', 'pagerank.py:10', false],
] as const;

export function pagerank(app: string, startedAt: number): Program {
  const derived = new Derivations();
  const items = new Map<string, Items>();
  const edges = EDGES.map(([from, to], index): Item => ({
    address: `read#0#${index}`,
    location: `links.txt:${index + 1}`,
    text: `${from} ${to}`,
  }));
  items.set('0', listed(edges));
  items.set('3', listed(PAGES.map((page, index) => keyed('3', index, page))));
  EDGES.forEach(([from], index) =>
    derived.add({ node: '3', index: PAGES.indexOf(from) }, { node: '0', index }),
  );

  const links: GraphLink[] = [
    { src: '0', dest: '1' },
    { src: '1', dest: '2' },
    { src: '2', dest: '3' },
    { src: '3', dest: '4' },
    { src: '4', dest: '5' },
  ];
  const nodes = [
    graphNode({
      node: '0',
      kind: 'source',
      label: 'read',
      op: 'textFile',
      name: 'textFile',
      path: 'links.txt',
      call_site: 'pagerank.py:5',
      stage: '0',
      has_items: true,
    }),
    graphNode({
      node: '1',
      kind: 'operator',
      op: 'map',
      name: 'map',
      call_site: 'pagerank.py:6',
      stage: '0',
    }),
    graphNode({
      node: '2',
      kind: 'operator',
      op: 'groupByKey',
      name: 'groupByKey',
      description: 'map side',
      call_site: 'pagerank.py:6',
      stage: '0',
      flows: 8,
    }),
    graphNode({
      node: '3',
      kind: 'shuffle',
      op: 'groupByKey',
      name: 'groupByKey',
      description: 'reduce side',
      call_site: 'pagerank.py:6',
      stage: '1',
      has_items: true,
      flows: 6,
    }),
    graphNode({
      node: '4',
      kind: 'operator',
      op: 'cache',
      name: 'cache',
      call_site: 'pagerank.py:6',
      stage: '1',
    }),
    graphNode({
      node: '5',
      kind: 'operator',
      op: 'mapValues',
      name: 'mapValues',
      call_site: 'pagerank.py:7',
      stage: '1',
    }),
  ];

  let ranks = '5';
  for (let turn = 0; turn < TURNS; turn += 1) {
    const id = (index: number) => String(FIRST_TURN + turn * PER_TURN + index);
    TURN.forEach(([name, kind, description, call_site, has_items], index) =>
      nodes.push(
        graphNode({
          node: id(index),
          kind,
          op: name,
          name,
          description,
          call_site,
          has_items,
          members: Array.from({ length: TURNS }, (_, t) =>
            String(FIRST_TURN + t * PER_TURN + index),
          ),
          stage: String(2 + 2 * turn + (index < 2 ? -1 : index < 5 ? 0 : 1)),
          flows: has_items ? (kind === 'shuffle' ? 6 : 14) : 0,
        }),
      ),
    );
    links.push(
      { src: '4', dest: id(0) },
      { src: ranks, dest: id(1) },
      { src: id(0), dest: id(2) },
      { src: id(1), dest: id(2) },
      ...[2, 3, 4, 5].map((index) => ({ src: id(index), dest: id(index + 1) })),
    );
    const before = turn === 0 ? '3' : String(FIRST_TURN + (turn - 1) * PER_TURN + 5);
    for (const index of [0, 1, 2, 4, 5]) {
      items.set(id(index), listed(PAGES.map((page, at) => keyed(id(index), at, page))));
    }
    PAGES.forEach((_, at) => {
      derived.add({ node: id(0), index: at }, { node: '3', index: at });
      derived.add({ node: id(1), index: at }, { node: before, index: at });
      derived.add({ node: id(2), index: at }, { node: id(0), index: at });
      derived.add({ node: id(2), index: at }, { node: id(1), index: at });
      derived.add({ node: id(5), index: at }, { node: id(4), index: at });
    });
    EDGES.forEach(([from, to]) =>
      derived.add(
        { node: id(4), index: PAGES.indexOf(to) },
        { node: id(2), index: PAGES.indexOf(from) },
      ),
    );
    ranks = id(6);
  }
  const sink = String(FIRST_TURN + TURNS * PER_TURN);
  const last = String(FIRST_TURN + (TURNS - 1) * PER_TURN + 5);
  items.set(
    sink,
    listed(
      PAGES.map((page, at) => ({
        address: `collect#0#${at}`,
        location: null,
        text: `('${page}', ${(1.48 - at * 0.17).toFixed(3)})`,
      })),
    ),
  );
  PAGES.forEach((_, at) => derived.add({ node: sink, index: at }, { node: last, index: at }));
  nodes.push(
    graphNode({
      node: sink,
      kind: 'sink',
      label: 'collect',
      op: 'collect',
      name: 'collect',
      call_site: 'pagerank.py:11',
      stage: '22',
      has_items: true,
      flows: 6,
    }),
  );
  links.push({ src: ranks, dest: sink });
  return {
    detail: {
      app,
      name: 'pagerank',
      status: 'ok',
      started_at: startedAt,
      ended_at: startedAt + 21.8,
      flows: 641,
      associations: 1204,
      complete: true,
      final: true,
      exact: true,
      reasons: [],
      unknown_parts: [],
    },
    nodes,
    links,
    items,
    parents: derived.parents,
    children: derived.children,
    find: finder(items),
  };
}

const keyed = (node: string, index: number, page: string): Item => ({
  address: `${node}@${index % 2}#${(page.charCodeAt(0) * 2654435761) % 2 ** 31}`,
  location: null,
  text: null,
});
