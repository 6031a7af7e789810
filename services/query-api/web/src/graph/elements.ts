/** Nodes and edges as React Flow takes them: sizes and handles are given, nothing is measured. */

import { MarkerType, Position, type Edge, type Node } from '@xyflow/react';

import type { DisplayGraph, DisplayNode } from './display';
import { NODE_HEIGHT, NODE_WIDTH, linkId, type Layout, type Point } from './layout';

export type OperatorElement = Node<{ node: DisplayNode }, 'operator' | 'neighbour'>;
export type StageElement = Node<{ stage: string }, 'stage'>;
export type Element = OperatorElement | StageElement;
export type LinkElement = Edge<{ bends: Point[] | undefined }, 'link'>;

const ARROW = {
  type: MarkerType.ArrowClosed,
  width: 18,
  height: 18,
  markerUnits: 'userSpaceOnUse',
  color: 'context-stroke',
};
const SIZE = { width: NODE_WIDTH, height: NODE_HEIGHT };
const HANDLES: OperatorElement['handles'] = [
  { type: 'target', position: Position.Left, x: 0, y: NODE_HEIGHT / 2, width: 1, height: 1 },
  {
    type: 'source',
    position: Position.Right,
    x: NODE_WIDTH - 1,
    y: NODE_HEIGHT / 2,
    width: 1,
    height: 1,
  },
];

export function elementsOf(graph: DisplayGraph, layout: Layout): Element[] {
  const stages = Object.entries(layout.stages).map(
    ([stage, { x, y, width, height }]): StageElement => ({
      id: `stage ${stage}`,
      type: 'stage',
      position: { x, y },
      width,
      height,
      measured: { width, height },
      handles: [],
      zIndex: -1,
      data: { stage },
    }),
  );
  const nodes = graph.nodes.flatMap((node): OperatorElement[] => {
    const position = layout.nodes[node.node];
    if (position === undefined) return [];
    return [
      {
        id: node.node,
        type: node.more === undefined ? 'operator' : 'neighbour',
        position,
        ...SIZE,
        measured: SIZE,
        handles: HANDLES,
        data: { node },
      },
    ];
  });
  return [...stages, ...nodes];
}

export function linksOf(
  graph: DisplayGraph,
  layout: Layout,
  onTheWay: ReadonlySet<string> | null,
): LinkElement[] {
  return graph.links.flatMap((link): LinkElement[] => {
    if (!(link.src in layout.nodes) || !(link.dest in layout.nodes)) return [];
    const traced = onTheWay?.has(link.src) === true && onTheWay.has(link.dest);
    return [
      {
        id: linkId(link),
        type: 'link',
        source: link.src,
        target: link.dest,
        className: onTheWay === null ? 'link' : traced ? 'link link-traced' : 'link link-dimmed',
        markerEnd: ARROW,
        data: { bends: layout.bends[linkId(link)] },
      },
    ];
  });
}
