/** A made-up application: nodes with items, and which items each was made of. */

import type { AppDetail, GraphLink, GraphNode, Item } from '../src/api/types';

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

type Told = Pick<GraphNode, 'node' | 'kind'> & Partial<GraphNode>;

export function graphNode(told: Told): GraphNode {
  return {
    label: told.node,
    op: told.name ?? told.kind,
    name: told.op ?? told.kind,
    description: '',
    call_site: '',
    path: null,
    exact: true,
    reason: '',
    partitions: 4,
    blocks: 4,
    flows: 0,
    associations: 0,
    members: [told.node],
    stage: '',
    has_items: false,
    ...told,
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
