/** A simple layered layout, left to right, quick enough for many thousand nodes. */

import {
  GAP_X,
  GAP_Y,
  NODE_HEIGHT,
  NODE_WIDTH,
  STAGE_PADDING,
  STAGE_TITLE,
  type Box,
  type Layout,
  type LayoutInput,
  type LayoutLink,
  type LayoutNode,
  type Point,
} from './layout';

interface Sized {
  id: string;
  width: number;
  height: number;
}

/** Nodes are laid out inside their stages, then the stages as if they were nodes. */
export function layered(input: LayoutInput): Layout {
  const blockOf = new Map(input.nodes.map((node) => [node.id, blockId(node)]));
  const inner = new Map<string, LayoutLink[]>();
  const outer: LayoutLink[] = [];
  for (const link of input.links) {
    const [src, dest] = [blockOf.get(link.src), blockOf.get(link.dest)];
    if (src === undefined || dest === undefined) continue;
    if (src !== dest) outer.push({ src, dest });
    else append(inner, src, link);
  }
  const members = new Map<string, LayoutNode[]>();
  for (const node of input.nodes) append(members, blockId(node), node);

  const blocks = [...members].map(([id, nodes]) => {
    const sized = nodes.map((node) => ({ id: node.id, width: NODE_WIDTH, height: NODE_HEIGHT }));
    const placed = arrange(sized, inner.get(id) ?? [], GAP_X, GAP_Y);
    const framed = nodes[0]?.stage !== '';
    const [side, top] = framed ? [STAGE_PADDING, STAGE_PADDING + STAGE_TITLE] : [0, 0];
    return {
      id,
      placed,
      side,
      top,
      stage: framed ? (nodes[0]?.stage ?? null) : null,
      width: placed.width + 2 * side,
      height: placed.height + top + side,
    };
  });
  const whole = arrange(blocks, outer, GAP_X, 1.5 * GAP_Y);

  const layout: Layout = { nodes: {}, stages: {}, bends: {} };
  for (const block of blocks) {
    const corner = whole.places.get(block.id) ?? { x: 0, y: 0 };
    for (const [id, at] of block.placed.places) {
      layout.nodes[id] = { x: corner.x + block.side + at.x, y: corner.y + block.top + at.y };
    }
    if (block.stage !== null) {
      layout.stages[block.stage] = { ...corner, width: block.width, height: block.height };
    }
  }
  return layout;
}

const blockId = (node: LayoutNode) => (node.stage === '' ? `node ${node.id}` : `in ${node.stage}`);

interface Arranged extends Omit<Box, 'x' | 'y'> {
  places: Map<string, Point>;
}

/** Columns by the longest way from the left; in a column near those they are linked to. */
function arrange(things: Sized[], links: LayoutLink[], gapX: number, gapY: number): Arranged {
  const columns = columnsOf(things, links);
  const sources = new Map<string, string[]>();
  for (const link of links) append(sources, link.dest, link.src);

  const places = new Map<string, Point>();
  const middle = new Map<string, number>();
  let x = 0;
  let height = 0;
  for (const column of columns) {
    const wanted = new Map(
      column.map((thing, index) => {
        const above = (sources.get(thing.id) ?? []).map((id) => middle.get(id));
        const known = above.filter((y) => y !== undefined);
        return [thing.id, known.length > 0 ? mean(known) : index * (thing.height + gapY)];
      }),
    );
    const ordered = column.toSorted((a, b) => (wanted.get(a.id) ?? 0) - (wanted.get(b.id) ?? 0));
    const total = ordered.reduce((sum, thing) => sum + thing.height + gapY, -gapY);
    // As near as the column's neighbours allow: start where its middle comes to lie in theirs.
    let y = Math.max(0, mean([...wanted.values()]) - total / 2);
    for (const thing of ordered) {
      places.set(thing.id, { x, y });
      middle.set(thing.id, y + thing.height / 2);
      y += thing.height + gapY;
    }
    height = Math.max(height, y - gapY);
    x += Math.max(...column.map((thing) => thing.width)) + gapX;
  }
  return { places, width: Math.max(x - gapX, 0), height: Math.max(height, 0) };
}

function columnsOf(things: Sized[], links: LayoutLink[]): Sized[][] {
  const next = new Map<string, string[]>();
  for (const link of links) append(next, link.src, link.dest);
  const column = new Map<string, number>();
  for (const id of inOrder(things, next)) {
    const own = column.get(id) ?? 0;
    column.set(id, own);
    for (const other of next.get(id) ?? []) {
      column.set(other, Math.max(column.get(other) ?? 0, own + 1));
    }
  }
  const columns: Sized[][] = [];
  for (const thing of things) {
    const at = column.get(thing.id) ?? 0;
    const beside = columns[at];
    if (beside === undefined) columns[at] = [thing];
    else beside.push(thing);
  }
  return columns;
}

/** Things before those they send to; a link that closes a loop is taken out of `next`. */
function inOrder(things: Sized[], next: Map<string, string[]>): string[] {
  const done: string[] = [];
  const state = new Map<string, 'open' | 'done'>();
  for (const { id: root } of things) {
    if (state.has(root)) continue;
    state.set(root, 'open');
    const path = [{ id: root, index: 0 }];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const followers = next.get(top.id) ?? [];
      const follower = followers[top.index];
      if (follower === undefined) {
        state.set(top.id, 'done');
        done.push(top.id);
        path.pop();
      } else if (state.get(follower) === 'open') {
        followers.splice(top.index, 1);
      } else {
        top.index += 1;
        if (!state.has(follower)) {
          state.set(follower, 'open');
          path.push({ id: follower, index: 0 });
        }
      }
    }
  }
  return done.reverse();
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function append<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}
