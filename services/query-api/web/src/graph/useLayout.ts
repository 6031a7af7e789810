import { useEffect, useMemo, useState } from 'react';

import { computeLayout } from './computeLayout';
import type { DisplayGraph } from './display';
import type { Layout, LayoutInput } from './layout';

interface Drawn {
  graph: DisplayGraph;
  layout: Layout;
}

/** A graph with its layout; the one before stays until the new layout has come. */
export function useLayout(graph: DisplayGraph): { drawn: Drawn | null; error: Error | null } {
  const shape = useMemo(() => shapeOf(graph), [graph]);
  const [laidOut, setLaidOut] = useState<{ shape: string; layout: Layout; graph: DisplayGraph }>();
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    let wanted = true;
    computeLayout(inputOf(graph)).then(
      (layout) => {
        if (wanted) setLaidOut({ shape, layout, graph });
      },
      (problem: unknown) => {
        if (wanted) setError(problem instanceof Error ? problem : new Error(String(problem)));
      },
    );
    return () => {
      wanted = false;
    };
    // Another graph of the same shape (new counts while a job runs) is drawn in the same places.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [shape]);
  const drawn = useMemo(() => {
    if (laidOut === undefined) return null;
    return { layout: laidOut.layout, graph: laidOut.shape === shape ? graph : laidOut.graph };
  }, [laidOut, shape, graph]);
  return { drawn, error };
}

function inputOf(graph: DisplayGraph): LayoutInput {
  return {
    nodes: graph.nodes.map(({ node, stage }) => ({ id: node, stage })),
    links: graph.links.map(({ src, dest }) => ({ src, dest })),
  };
}

function shapeOf(graph: DisplayGraph): string {
  const { nodes, links } = inputOf(graph);
  return `${nodes.map(({ id, stage }) => `${id}/${stage}`).join()};${links.map(({ src, dest }) => `${src}>${dest}`).join()}`;
}
