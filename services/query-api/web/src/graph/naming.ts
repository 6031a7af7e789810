import type { GraphNode } from '../api/types';

type Named = Pick<GraphNode, 'node' | 'label' | 'name' | 'op' | 'description'>;

/** What a node is called where people read it: its name in addresses if it has one, else what it does. */
export function nodeTitle(node: Named): string {
  const does = node.name || node.op || `node ${node.node}`;
  if (node.label !== node.node && node.label !== '') return node.label;
  return node.description ? `${does} (${node.description})` : does;
}

/** The file of a source or sink, else the line of the program. */
export function whereabouts(node: Pick<GraphNode, 'path' | 'call_site'>): string {
  return node.path ?? node.call_site;
}
