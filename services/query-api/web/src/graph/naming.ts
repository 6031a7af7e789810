import type { GraphNode } from '../api/types';

type Named = Pick<GraphNode, 'node' | 'label' | 'name' | 'op'>;

/** What a node is called where people read it: its name in addresses if it has one, else what it does. */
export function nodeTitle(node: Named): string {
  if (node.label !== node.node && node.label !== '') return node.label;
  return node.name || node.op || `node ${node.node}`;
}

/** The file of a source or sink, else which side of an operator it is, and its line. */
export function whereabouts(node: Pick<GraphNode, 'path' | 'call_site' | 'description'>): string {
  return node.path ?? [node.description, node.call_site].filter(Boolean).join(' · ');
}
