/** What of a graph is drawn: loops folded into one node, or opened turn by turn. */

import type { Graph, GraphLink, GraphNode } from '../api/types';

export interface DisplayNode extends GraphNode {
  /** The fold that was opened to show this node, by its first node. */
  openedFrom: string | null;
}

export interface DisplayGraph {
  nodes: DisplayNode[];
  links: GraphLink[];
  /** The node that stands for each node of the program. */
  standsFor: ReadonlyMap<string, string>;
}

/** `unfolded` is needed once a loop is opened; until it has come, the loop stays folded. */
export function displayGraph(
  folded: Graph,
  unfolded: Graph | undefined,
  opened: readonly string[],
): DisplayGraph {
  const single = new Map(unfolded?.nodes.map((node) => [node.node, node]));
  const isOpen = (node: GraphNode) => opened.includes(node.node) && isLoop(node);
  const nodes = folded.nodes.flatMap((node): DisplayNode[] => {
    if (unfolded === undefined || !isOpen(node)) return [{ ...node, openedFrom: null }];
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
