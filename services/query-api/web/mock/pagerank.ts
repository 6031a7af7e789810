/** Ten turns of PageRank over a few links: what loops made is folded. */

import type { Item } from '../src/api/types';
import {
  Derivations,
  chained,
  ended,
  finder,
  listed,
  made,
  shuffled,
  type Items,
  type Program,
} from './program.ts';
import { aTime } from '../src/testing/samples.ts';

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

  const links = chained(0, 1, 2, 3, 4, 5);
  const nodes = [
    made('0', 'textFile', 'pagerank.py:5', { path: 'links.txt', stage: '0' }),
    made('1', 'map', 'pagerank.py:6', { stage: '0' }),
    ...shuffled('2', 'groupByKey', 'pagerank.py:6', [
      { stage: '0', flows: 8 },
      { stage: '1', flows: 6 },
    ]),
    made('4', 'cache', 'pagerank.py:6', { stage: '1' }),
    made('5', 'mapValues', 'pagerank.py:7', { stage: '1' }),
  ];

  let ranks = '5';
  for (let turn = 0; turn < TURNS; turn += 1) {
    const id = (index: number) => String(FIRST_TURN + turn * PER_TURN + index);
    TURN.forEach(([name, kind, description, call_site, has_items], index) =>
      nodes.push(
        made(id(index), name, call_site, {
          kind,
          description,
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
      ...chained(4, id(0), id(2)),
      ...chained(ranks, id(1)),
      ...chained(id(1), id(2), id(3), id(4), id(5), id(6)),
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
  nodes.push(made(sink, 'collect', 'pagerank.py:11', { stage: '22', flows: 6 }));
  links.push(...chained(ranks, sink));
  return {
    detail: ended(
      { app, name: 'pagerank', started_at: aTime(startedAt), flows: 641, associations: 1204 },
      21.8,
    ),
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
