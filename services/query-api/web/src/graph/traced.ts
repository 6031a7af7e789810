/** Which part of a drawn graph a trace goes through. */

import type { Trace } from '../api/types';
import type { DisplayGraph } from './display';

export interface TracedGraph {
  /** Items that take part, by drawn node. */
  counts: ReadonlyMap<string, number>;
  /** Drawn nodes on the way, also those that keep no items of their own. */
  onTheWay: ReadonlySet<string>;
}

export function tracedGraph(graph: DisplayGraph, trace: Trace): TracedGraph {
  const counts = countsOf(graph, trace);
  return { counts, onTheWay: withNodesBetween(graph, counts) };
}

function countsOf(graph: DisplayGraph, trace: Trace): Map<string, number> {
  const ofNode = new Map<string, number>();
  for (const { node, count } of [...trace.start, ...trace.groups, ...trace.passed]) {
    ofNode.set(node, count);
  }
  const counts = new Map<string, number>();
  for (const [node, count] of ofNode) {
    const drawn = graph.standsFor.get(node);
    if (drawn !== undefined) counts.set(drawn, (counts.get(drawn) ?? 0) + count);
  }
  return counts;
}

/** A chain is stored as one step: its inner nodes are on the way if both of its ends are. */
function withNodesBetween(graph: DisplayGraph, counts: ReadonlyMap<string, number>): Set<string> {
  const through = new Set(
    graph.nodes.filter((node) => !node.has_items && !counts.has(node.node)).map((n) => n.node),
  );
  const next = neighbours(graph.links.map(({ src, dest }) => [src, dest]));
  const previous = neighbours(graph.links.map(({ src, dest }) => [dest, src]));
  const behind = reached(counts.keys(), next, through);
  const before = reached(counts.keys(), previous, through);
  return new Set([...counts.keys(), ...[...behind].filter((node) => before.has(node))]);
}

type Neighbours = ReadonlyMap<string, readonly string[]>;

export function neighbours(pairs: Iterable<readonly [string, string]>): Neighbours {
  const found = new Map<string, string[]>();
  for (const [from, to] of pairs) {
    const known = found.get(from);
    if (known === undefined) found.set(from, [to]);
    else known.push(to);
  }
  return found;
}

function reached(from: Iterable<string>, next: Neighbours, through: ReadonlySet<string>) {
  const found = new Set<string>();
  const waiting = [...from];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    for (const other of next.get(node) ?? []) {
      if (!through.has(other) || found.has(other)) continue;
      found.add(other);
      waiting.push(other);
    }
  }
  return found;
}
