/** A made-up application: nodes with items, and which items each was made of. */

import type { AppDetail, GraphLink, GraphNode, Item } from '../src/api/types';
import { aNode, anApp, aTime } from '../src/testing/samples.ts';

/** Items that are made when looked at: a node may have a million. */
export interface Items {
  count: number;
  at: (index: number) => Item;
}

export interface Program {
  detail: Omit<AppDetail, 'nodes' | 'sources' | 'sinks'>;
  nodes: GraphNode[];
  links: GraphLink[];
  items: ReadonlyMap<string, Items>;
  /** The items that an item was made of, by address: node and index. */
  parents: (node: string, index: number) => Place[];
  /** The items that an item went into. */
  children: (node: string, index: number) => Place[];
  /** Where an address is. */
  find: (address: string) => Place | null;
}

export interface Place {
  node: string;
  index: number;
}

export const listed = (items: Item[]): Items => ({
  count: items.length,
  at: (index) => items[index] ?? { address: '?', location: null, text: null },
});

/** What stands at the ends of a program, by what made it. */
const ENDS: Record<string, Partial<GraphNode>> = {
  textFile: { kind: 'source', label: 'read', has_items: true },
  saveAsTextFile: { kind: 'sink', label: 'write', has_items: true },
  collect: { kind: 'sink', label: 'collect', has_items: true },
};

/** A node that the call `name` made at a line of the program. */
export function made(
  node: string,
  name: string,
  call_site: string,
  fields: Partial<GraphNode> = {},
): GraphNode {
  const plain = { partitions: 4, blocks: 4, flows: 0, associations: 0, has_items: false };
  return aNode({ node, name, op: name, call_site, ...plain, ...ENDS[name], ...fields });
}

/** Both sides of a call that shuffles: the nodes `node` and the one after it. */
export function shuffled(
  node: string,
  name: string,
  call_site: string,
  [before, after]: [Partial<GraphNode>, Partial<GraphNode>],
): GraphNode[] {
  return [
    made(node, name, call_site, { description: 'map side', ...before }),
    made(String(Number(node) + 1), name, call_site, {
      kind: 'shuffle',
      description: 'reduce side',
      has_items: true,
      ...after,
    }),
  ];
}

/** Each node linked to the next. */
export const chained = (...nodes: (string | number)[]): GraphLink[] =>
  nodes.slice(1).map((dest, index) => ({ src: String(nodes[index]), dest: String(dest) }));

type Detail = Program['detail'];

/** An application that is over, complete and exact, but for `fields`. */
export function ended(
  fields: Pick<Detail, 'app' | 'name' | 'started_at' | 'flows'> & Partial<Detail>,
  seconds: number,
): Detail {
  return {
    ...anApp(fields.app, {
      ended_at: aTime(Date.parse(fields.started_at) / 1000 + seconds),
      associations: fields.flows,
    }),
    answerable: null,
    refusals: [],
    unknown_parts: [],
    arrays: 0,
    ...fields,
  };
}

/** Both directions of "was made of", kept as lists. */
export class Derivations {
  private readonly up = new Map<string, Place[]>();
  private readonly down = new Map<string, Place[]>();

  add(child: Place, parent: Place): void {
    push(this.up, key(child), parent);
    push(this.down, key(parent), child);
  }

  parents = (node: string, index: number) => this.up.get(key({ node, index })) ?? [];
  children = (node: string, index: number) => this.down.get(key({ node, index })) ?? [];
}

/** Finds addresses of the form `label#partition#ordinal` among listed items. */
export function finder(items: ReadonlyMap<string, Items>): (address: string) => Place | null {
  let known: Map<string, Place> | undefined;
  return (address) => {
    known ??= new Map(
      [...items].flatMap(([node, { count, at }]) =>
        Array.from({ length: count }, (_, index): [string, Place][] => {
          const item = at(index);
          const place = { node, index };
          return item.location === null
            ? [[item.address, place]]
            : [
                [item.address, place],
                [item.location, place],
              ];
        }).flat(),
      ),
    );
    return known.get(address) ?? null;
  };
}

/** Numbers that look random and are the same each time. */
export function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const key = ({ node, index }: Place) => `${node} ${index}`;

function push<T>(lists: Map<string, T[]>, at: string, value: T): void {
  const list = lists.get(at);
  if (list === undefined) lists.set(at, [value]);
  else list.push(value);
}
