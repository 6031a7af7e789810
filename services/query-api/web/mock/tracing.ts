/** Traces over made-up programs. */

import type { GroupCount, Item, NodeRef, Trace, TraceRequest } from '../src/api/types';
import type { Place, Program } from './program.ts';

const LISTED = 20;

/** Indexes of items, by node. */
export type Found = Map<string, Set<number>>;

export interface Answer {
  trace: Trace;
  start: Found;
  groups: Found;
  passed: Found;
}

export function traced(program: Program, id: string, request: TraceRequest): Answer {
  const start = collected(startOf(program, request));
  const { groups, passed } = followed(program, request, start);
  const trace: Trace = {
    trace: id,
    app: program.detail.app,
    direction: request.direction,
    request,
    exact: program.detail.exact,
    complete: program.detail.complete,
    changed: false,
    reasons: program.detail.exact
      ? []
      : program.nodes.filter((node) => !node.exact).map((n) => `node ${n.node}: ${n.reason}`),
    warnings: [],
    computed: false,
    through: false,
    start: counts(program, start),
    groups: counts(program, groups),
    passed: counts(program, passed).map(({ node, label, count }) => ({ node, label, count })),
    count: [...groups.values()].reduce((sum, found) => sum + found.size, 0),
  };
  return { trace, start, groups, passed };
}

export class NoSuchPlace extends Error {}

function startOf(program: Program, { start }: TraceRequest): Place[] {
  if ('places' in start) {
    return start.places.map((place) => {
      const found = program.find(place);
      if (found === null) throw new NoSuchPlace(place);
      return found;
    });
  }
  if ('contains' in start) {
    const items = program.items.get(start.node);
    const all = Array.from({ length: items?.count ?? 0 }, (_, index) => index);
    return all
      .filter((index) => items?.at(index).text?.includes(start.contains))
      .map((index) => ({ node: start.node, index }));
  }
  return [];
}

function followed(program: Program, request: TraceRequest, start: Found) {
  const next = request.direction === 'backward' ? program.parents : program.children;
  const end = request.direction === 'backward' ? 'source' : 'sink';
  const ends = new Set(program.nodes.filter((one) => one.kind === end).map((one) => one.node));
  const passed: Found = new Map([...start].map(([node, found]) => [node, new Set(found)]));
  const groups: Found = new Map();
  let waiting = places(start);
  for (let step = 0; waiting.length > 0; step += 1) {
    const further: Place[] = [];
    for (const place of waiting) {
      const to = next(place.node, place.index);
      const stop = request.steps === null ? place.node === request.until : step === request.steps;
      // What goes no further and is no end was dropped on the way.
      if (stop || ends.has(place.node)) {
        add(groups, place);
        continue;
      }
      for (const one of to) if (add(passed, one)) further.push(one);
    }
    waiting = further;
  }
  return { groups, passed };
}

export function counts(program: Program, found: Found): GroupCount[] {
  return [...found].map(([node, indexes]) => ({
    ...refOf(program, node),
    count: indexes.size,
    changed: false,
    gone: false,
    standing: 'same',
    items: itemsOf(program, node, indexes, 0, LISTED),
  }));
}

export function itemsOf(
  program: Program,
  node: string,
  found: Set<number>,
  from: number,
  limit: number,
): Item[] {
  const items = program.items.get(node);
  if (items === undefined) return [];
  return inOrder(found)
    .slice(from, from + limit)
    .map((index) => items.at(index));
}

export function refOf(program: Program, node: string): NodeRef {
  const found = program.nodes.find((one) => one.node === node);
  return {
    node,
    label: found?.label ?? node,
    what: found?.name ?? node,
    path: found?.path ?? null,
  };
}

const sorted = new WeakMap<Set<number>, number[]>();

function inOrder(found: Set<number>): number[] {
  let known = sorted.get(found);
  if (known === undefined) {
    known = [...found].sort((a, b) => a - b);
    sorted.set(found, known);
  }
  return known;
}

function collected(all: Place[]): Found {
  const found: Found = new Map();
  for (const place of all) add(found, place);
  return found;
}

const places = (found: Found): Place[] =>
  [...found].flatMap(([node, indexes]) => [...indexes].map((index) => ({ node, index })));

/** Whether it was not in there before. */
function add(found: Found, { node, index }: Place): boolean {
  const indexes = found.get(node);
  if (indexes === undefined) {
    found.set(node, new Set([index]));
    return true;
  }
  const before = indexes.size;
  return indexes.add(index).size > before;
}
