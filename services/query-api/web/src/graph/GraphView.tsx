import { Background, Controls, ReactFlow, ReactFlowProvider, useReactFlow } from '@xyflow/react';
import '@xyflow/react/dist/base.css';
import { useCallback, useEffect, useMemo, useRef } from 'react';

import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import type { DisplayGraph } from './display';
import { elementsOf, linksOf, type Element } from './elements';
import { GraphContext, type GraphState, type GrowSide } from './GraphContext';
import { GraphMap } from './GraphMap';
import { NODE_HEIGHT, NODE_WIDTH, extent, type Box, type Layout } from './layout';
import { LinkLine } from './LinkLine';
import { NodeFinder } from './NodeFinder';
import { NeighbourNode } from './NeighbourNode';
import { OperatorNode } from './OperatorNode';
import { StageBox } from './StageBox';
import type { NodeRank } from '../trace/ranks';
import type { TracedGraph } from './traced';
import { useLayout } from './useLayout';
import { READABLE, around, isInView, viewOf } from './viewport';
import { neighbourOf, type Arrow } from './walking';

const NODE_TYPES = { operator: OperatorNode, neighbour: NeighbourNode, stage: StageBox };
const EDGE_TYPES = { link: LinkLine };
/** Graphs with more nodes get a map. */
const MAP_FROM = 30;

interface Props {
  graph: DisplayGraph;
  selected: string | null;
  traced: TracedGraph | null;
  /** Changes when the view should move to what is traced. */
  traceId: string | null;
  ranks?: ReadonlyMap<string, NodeRank>;
  onSelect: (node: string) => void;
  onUnfold?: (node: string) => void;
  onGrow?: (node: string, side: GrowSide) => void;
}

const nothing = () => undefined;

export function GraphView(props: Props) {
  const { drawn, error } = useLayout(props.graph);
  if (error !== null) return <ErrorNotice error={error} />;
  if (drawn === null) return <Loading what="the graph" />;
  return (
    <ReactFlowProvider>
      <Canvas {...props} graph={drawn.graph} layout={drawn.layout} />
    </ReactFlowProvider>
  );
}

function Canvas({
  graph,
  layout,
  selected,
  traced,
  traceId,
  ranks,
  onSelect,
  onUnfold = nothing,
  onGrow = nothing,
}: Props & { layout: Layout }) {
  const pane = useRef<HTMLDivElement>(null);
  const flow = useReactFlow();
  const elements = useMemo(() => elementsOf(graph, layout), [graph, layout]);
  const onTheWay = traced?.onTheWay ?? null;
  const links = useMemo(() => linksOf(graph, layout, onTheWay), [graph, layout, onTheWay]);

  const show = useCallback(
    (box: Box, ends: Box | null = null) => {
      if (pane.current !== null) {
        void flow.setViewport(viewOf(box, pane.current.getBoundingClientRect(), ends));
      }
    },
    [flow],
  );

  useEffect(() => {
    show(extent(layout), outputsOf(graph, layout) ?? neighboursOf(graph, layout, selected));
    // Only another layout moves the view, not new counts in the same places.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [layout, show]);

  const tracedBox = useMemo(
    () => around([...(onTheWay ?? [])].flatMap((node) => boxOf(layout, node))),
    [layout, onTheWay],
  );
  useEffect(() => {
    if (traceId !== null && tracedBox !== null) show(tracedBox);
    // Only another trace moves the view, not another answer about the same one.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [traceId, layout, show]);

  const reveal = useCallback(
    (node: string) => {
      const [box] = boxOf(layout, node);
      if (box === undefined || pane.current === null) return;
      if (isInView(box, flow.getViewport(), pane.current.getBoundingClientRect())) return;
      const zoom = Math.max(flow.getZoom(), READABLE);
      void flow.setCenter(box.x + box.width / 2, box.y + box.height / 2, { zoom });
    },
    [flow, layout],
  );
  const focus = useCallback(
    (node: string) => {
      reveal(node);
      // It may have to be drawn first: only what is in view is.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          pane.current
            ?.querySelector<HTMLElement>(`[data-node="${CSS.escape(node)}"]`)
            ?.focus({ preventScroll: true });
        }),
      );
    },
    [reveal],
  );
  useEffect(() => {
    if (selected !== null) reveal(selected);
  }, [selected, reveal]);

  const onWalk = useCallback(
    (node: string, arrow: Arrow) => {
      const next = neighbourOf(graph, layout, node, arrow);
      if (next !== null) focus(next);
    },
    [graph, layout, focus],
  );
  const growNode = useCallback(
    (node: string, side: GrowSide) => {
      onGrow(node, side);
      // The button that was pressed goes when all is shown.
      focus(node);
    },
    [onGrow, focus],
  );
  const state = useMemo<GraphState>(
    () => ({
      selected,
      traced,
      ranks: ranks ?? null,
      onSelect,
      onUnfold,
      onGrow: growNode,
      onWalk,
    }),
    [selected, traced, ranks, onSelect, onUnfold, growNode, onWalk],
  );

  return (
    <GraphContext value={state}>
      <div className="canvas" ref={pane} data-nodes={graph.nodes.length}>
        <ReactFlow<Element>
          nodes={elements}
          edges={links}
          nodeTypes={NODE_TYPES}
          edgeTypes={EDGE_TYPES}
          onlyRenderVisibleElements
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          disableKeyboardA11y
          minZoom={0.15}
          maxZoom={1.6}
          zoomOnDoubleClick={false}
        >
          <Background gap={24} size={1} />
          <Controls showInteractive={false} position="bottom-left" />
          {graph.nodes.length >= MAP_FROM && <GraphMap layout={layout} />}
        </ReactFlow>
        <NodeFinder
          nodes={graph.nodes}
          onFind={(node) => {
            onSelect(node);
            focus(node);
          }}
        />
      </div>
    </GraphContext>
  );
}

function boxOf(layout: Layout, node: string): Box[] {
  const at = layout.nodes[node];
  return at === undefined ? [] : [{ ...at, width: NODE_WIDTH, height: NODE_HEIGHT }];
}

/** The box that the first view should show at the least: the outputs, the one furthest along if they are apart. */
export function outputsOf(graph: DisplayGraph, layout: Layout): Box | null {
  const boxes = graph.nodes
    .filter(({ kind }) => kind === 'sink' || kind === 'frame')
    .flatMap(({ node }) => boxOf(layout, node));
  return boxes.reduce<Box | null>(
    (last, box) => (last === null || box.x > last.x ? box : last),
    null,
  );
}

/** The box of a node and of all that it is linked to. */
export function neighboursOf(graph: DisplayGraph, layout: Layout, node: string | null): Box | null {
  if (node === null) return null;
  const linked = graph.links.flatMap(({ src, dest }) =>
    src === node ? [dest] : dest === node ? [src] : [],
  );
  return around([node, ...linked].flatMap((one) => boxOf(layout, one)));
}
