/** What of a graph is drawn: loops folded into one node, or opened turn by turn. */

import type { Graph, GraphLink, GraphNode } from '../api/types';

export interface DisplayNode extends GraphNode {
  /** The fold this node is a turn of, where its loop is opened. */
  openedFrom: string | null;
  /** Of a job or dataset: how many neighbours are not drawn. */
  more?: { upstream: number; downstream: number };
}

/** A node that is no operator of a program: it has a key, a title, and what is beside it. */
export const apartNode = (
  fields: Pick<DisplayNode, 'node' | 'name' | 'what' | 'path' | 'kind' | 'description' | 'more'>,
): DisplayNode => ({
  ...fields,
  label: fields.name,
  op: fields.kind,
  call_site: '',
  exact: true,
  reason: '',
  partitions: null,
  blocks: 0,
  flows: 0,
  associations: 0,
  members: [fields.node],
  stage: '',
  has_items: false,
  openedFrom: null,
});

export interface DisplayGraph {
  nodes: DisplayNode[];
  links: GraphLink[];
  /** The node that stands for each node of the program. */
  standsFor: ReadonlyMap<string, string>;
}

/**
 * `opened`: a fold of each loop to be shown turn by turn. That needs `unfolded`; until it has come,
 * loops stay folded.
 */
export function displayGraph(
  folded: Graph,
  unfolded: Graph | undefined,
  opened: readonly string[],
): DisplayGraph {
  const single = new Map(unfolded?.nodes.map((node) => [node.node, node]));
  const open = new Set(opened.flatMap((fold) => [...loopOf(folded, fold)]));
  const nodes = folded.nodes.flatMap((node): DisplayNode[] => {
    if (unfolded === undefined || !open.has(node.node)) return [{ ...node, openedFrom: null }];
    return node.members.flatMap((member) => {
      const one = single.get(member);
      return one === undefined ? [] : [{ ...one, openedFrom: node.node }];
    });
  });
  const standsFor = new Map(
    nodes.flatMap((node) =>
      (node.openedFrom === null ? node.members : [node.node]).map((member) => [member, node.node]),
    ),
  );
  const links = unfolded !== undefined && opened.length > 0 ? unfolded.links : folded.links;
  return { nodes, links: linksBetween(links, standsFor), standsFor };
}

/** The folds that one loop made: those linked to each other that were made as often. */
export function loopOf(folded: Graph, fold: string): Set<string> {
  const loops = new Map(folded.nodes.filter(isLoop).map((node) => [node.node, node]));
  const turns = loops.get(fold)?.members.length;
  const madeAsOften = (node: string) => loops.get(node)?.members.length === turns;
  const found = new Set<string>();
  if (turns === undefined) return found;
  const waiting = [fold];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (found.has(node)) continue;
    found.add(node);
    for (const { src, dest } of folded.links) {
      if (src === node && madeAsOften(dest)) waiting.push(dest);
      if (dest === node && madeAsOften(src)) waiting.push(src);
    }
  }
  return found;
}

export const isLoop = (node: GraphNode) => node.members.length > 1;

function linksBetween(links: GraphLink[], standsFor: ReadonlyMap<string, string>): GraphLink[] {
  const found = new Map<string, GraphLink>();
  for (const link of links) {
    const src = standsFor.get(link.src);
    const dest = standsFor.get(link.dest);
    // A fold that sends to itself says no more than its "x10".
    if (src === undefined || dest === undefined || src === dest) continue;
    found.set(`${src} ${dest}`, { src, dest });
  }
  return [...found.values()];
}
