/** What layouts take and give; positions are of top left corners. */

export interface LayoutNode {
  id: string;
  /** Nodes of one stage lie together; empty: in none. */
  stage: string;
}

export interface LayoutLink {
  src: string;
  dest: string;
}

export interface LayoutInput {
  nodes: LayoutNode[];
  links: LayoutLink[];
}

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

export interface Layout {
  nodes: Record<string, Point>;
  stages: Record<string, Box>;
  /** Bends of links, by {@link linkId}; links without any are drawn as curves. */
  bends: Record<string, Point[]>;
}

export const NODE_WIDTH = 166;
export const NODE_HEIGHT = 80;
export const GAP_X = 36;
export const GAP_Y = 20;
export const STAGE_PADDING = 12;
export const STAGE_TITLE = 24;

/** Beyond so many nodes the simple layout is used: the thorough one takes seconds. */
export const THOROUGH_LIMIT = 220;

export const linkId = (link: LayoutLink) => `${link.src}>${link.dest}`;

/** The size of all that was laid out. */
export function extent(layout: Layout): Box {
  const boxes = [
    ...Object.values(layout.stages),
    ...Object.values(layout.nodes).map((at) => ({ ...at, width: NODE_WIDTH, height: NODE_HEIGHT })),
  ];
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of boxes) {
    left = Math.min(left, box.x);
    top = Math.min(top, box.y);
    right = Math.max(right, box.x + box.width);
    bottom = Math.max(bottom, box.y + box.height);
  }
  return boxes.length > 0
    ? { x: left, y: top, width: right - left, height: bottom - top }
    : { x: 0, y: 0, width: 0, height: 0 };
}
