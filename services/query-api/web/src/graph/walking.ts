/** Where arrow keys lead in a drawn graph. */

import type { DisplayGraph } from './display';
import { NODE_WIDTH, type Layout } from './layout';

export type Arrow = 'ArrowLeft' | 'ArrowRight' | 'ArrowUp' | 'ArrowDown';

export const isArrow = (key: string): key is Arrow =>
  key === 'ArrowLeft' || key === 'ArrowRight' || key === 'ArrowUp' || key === 'ArrowDown';

/** Left and right along links, up and down among what lies one above the other. */
export function neighbourOf(
  graph: DisplayGraph,
  layout: Layout,
  from: string,
  arrow: Arrow,
): string | null {
  const here = layout.nodes[from];
  if (here === undefined) return null;
  let candidates: string[];
  if (arrow === 'ArrowRight') {
    candidates = graph.links.filter((link) => link.src === from).map((link) => link.dest);
  } else if (arrow === 'ArrowLeft') {
    candidates = graph.links.filter((link) => link.dest === from).map((link) => link.src);
  } else {
    const sign = arrow === 'ArrowDown' ? 1 : -1;
    candidates = Object.entries(layout.nodes)
      .filter(([, at]) => Math.abs(at.x - here.x) < NODE_WIDTH && sign * (at.y - here.y) > 0)
      .map(([id]) => id);
  }
  let best: string | null = null;
  let nearest = Infinity;
  for (const id of candidates) {
    const at = layout.nodes[id];
    if (at !== undefined && Math.abs(at.y - here.y) < nearest) {
      nearest = Math.abs(at.y - here.y);
      best = id;
    }
  }
  return best;
}
