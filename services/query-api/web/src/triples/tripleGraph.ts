/** A trace of triples as a graph that is drawn: what is nearest to the item first, more where it is asked for. */

import type { TripleTrace } from '../api/types';
import { apartNode, type DisplayGraph, type DisplayNode } from '../graph/display';
import { counted } from '../lib/format';

/** How many items are drawn at first, and how many more by each click. */
export const FIRST_ITEMS = 60;
export const GROWN_ITEMS = 40;

export interface Neighbours {
  /** What an item was derived from, and what was derived from it, on the way; with the operations between. */
  upstream: Map<string, string[]>;
  downstream: Map<string, string[]>;
}

export type Trail = ReadonlyMap<string, Neighbours>;

/** The items of a trace with what is beside them, in the order of its triples. */
export function trailOf({ item, triples }: TripleTrace): Trail {
  const trail = new Map<string, Neighbours>();
  const at = (name: string) => {
    const known: Neighbours = trail.get(name) ?? { upstream: new Map(), downstream: new Map() };
    trail.set(name, known);
    return known;
  };
  at(item);
  for (const { src, dst, op } of triples) {
    const [before, after] = [at(src).downstream, at(dst).upstream];
    before.set(dst, [...(before.get(dst) ?? []), op]);
    after.set(src, [...(after.get(src) ?? []), op]);
  }
  return trail;
}

/** Items that are drawn: those nearest to the item, then those that were asked for; one that is drawn already is asked for what is beside it. */
export function drawnItems(item: string, trail: Trail, grown: readonly string[]): Set<string> {
  const drawn = new Set([item]);
  for (const name of drawn) {
    for (const other of besides(trail, name)) {
      if (drawn.size >= FIRST_ITEMS) break;
      drawn.add(other);
    }
  }
  for (const name of grown) {
    if (!drawn.has(name)) {
      if (trail.has(name)) drawn.add(name);
      continue;
    }
    const more = besides(trail, name).filter((other) => !drawn.has(other));
    for (const other of more.slice(0, GROWN_ITEMS)) drawn.add(other);
  }
  return drawn;
}

/** The graph of the items that are drawn. */
export function tripleGraph(item: string, trail: Trail, drawn: ReadonlySet<string>): DisplayGraph {
  const links = [...drawn].flatMap((src) =>
    [...(trail.get(src)?.downstream.keys() ?? [])]
      .filter((dest) => dest !== src && drawn.has(dest))
      .map((dest) => ({ src: keyOf(src), dest: keyOf(dest) })),
  );
  const nodes = [...drawn].map((name) => displayNode(name, name === item, trail, drawn));
  return { nodes, links, standsFor: new Map(nodes.map(({ node }) => [node, node])) };
}

/** Identifies an item; holds no characters that layouts and addresses mean something by. */
export const keyOf = (item: string) => `item:${encodeURIComponent(item)}`;

/** The item of a key; null if it is none. */
export function itemOf(key: string): string | null {
  try {
    return key.startsWith('item:') ? decodeURIComponent(key.slice('item:'.length)) : null;
  } catch {
    return null;
  }
}

function besides(trail: Trail, name: string): string[] {
  const sides = trail.get(name);
  return sides === undefined ? [] : [...sides.upstream.keys(), ...sides.downstream.keys()];
}

function displayNode(
  name: string,
  isAsked: boolean,
  trail: Trail,
  drawn: ReadonlySet<string>,
): DisplayNode {
  const { upstream = new Map<string, string[]>(), downstream = new Map<string, string[]>() } =
    trail.get(name) ?? {};
  const ops = [...new Set([...upstream.values()].flat())];
  const [op = ''] = ops;
  const hidden = (side: ReadonlyMap<string, unknown>) =>
    [...side.keys()].filter((other) => !drawn.has(other)).length;
  return apartNode({
    node: keyOf(name),
    name,
    what: name,
    path: isAsked ? 'the item asked for' : null,
    kind: 'item',
    description: ops.length > 1 ? counted(ops.length, 'operation') : op && `by ${op}`,
    more: { upstream: hidden(upstream), downstream: hidden(downstream) },
  });
}
