/** How suspects are shown on the graph: the best of each node, with its place in the ranking. */

import type { SuspectTasks, Suspects } from '../api/types';

export interface NodeRank {
  rank: number;
  /** What has this rank: a task that ends at the node, or a row of it. */
  what: 'task' | 'row';
  /** How strong its colour is, by its score beside the best one: 3 is the strongest. */
  heat: 1 | 2 | 3;
}

interface Suspect {
  node: string;
  rank: number;
  score: number | null;
}

/** Ranks by the drawn node that stands for each node of the program; a task counts before rows. */
export function ranksOf(
  rows: Suspects['items'],
  tasks: SuspectTasks['tasks'],
  standsFor: ReadonlyMap<string, string>,
): Map<string, NodeRank> {
  const found = new Map<string, NodeRank>();
  const add = (suspects: readonly Suspect[], what: NodeRank['what']) => {
    const best = Math.max(0, ...suspects.map(({ score }) => score ?? 0));
    for (const { node, rank, score } of suspects) {
      const drawn = standsFor.get(node);
      const known = drawn === undefined ? undefined : found.get(drawn);
      if (drawn === undefined || (known?.what === what && known.rank <= rank)) continue;
      found.set(drawn, { rank, what, heat: heatOf(score, best) });
    }
  };
  add(rows, 'row');
  add(tasks, 'task');
  return found;
}

function heatOf(score: number | null, best: number): NodeRank['heat'] {
  // Without bound: no other score comes near.
  if (score === null) return 3;
  const share = best > 0 ? score / best : 0;
  return share >= 0.75 ? 3 : share >= 0.4 ? 2 : 1;
}
