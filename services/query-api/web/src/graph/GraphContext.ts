import { createContext, useContext } from 'react';

import type { NodeRank } from '../trace/ranks';
import type { TracedGraph } from './traced';
import type { Arrow } from './walking';

export type GrowSide = 'upstream' | 'downstream';

/** What drawn nodes need to know of the page; only those in view follow its changes. */
export interface GraphState {
  selected: string | null;
  traced: TracedGraph | null;
  /** Places of nodes in a ranking of suspects. */
  ranks: ReadonlyMap<string, NodeRank> | null;
  onSelect: (node: string) => void;
  onUnfold: (node: string) => void;
  onGrow: (node: string, side: GrowSide) => void;
  onWalk: (node: string, arrow: Arrow) => void;
}

export const GraphContext = createContext<GraphState | null>(null);

export function useGraphState(): GraphState {
  const state = useContext(GraphContext);
  if (state === null) throw new Error('a node is drawn outside of a graph');
  return state;
}
