import type { Box, Point } from './layout';

export interface View extends Point {
  zoom: number;
}

interface Size {
  width: number;
  height: number;
}

const MARGIN = 28;
/** Smaller letters can't be read. */
const READABLE = 0.6;

/** All of a box if it can be read then, else its beginning: the left, in the middle of the height. */
export function viewOf(box: Box, pane: Size): View {
  const fitting = Math.min(
    (pane.width - 2 * MARGIN) / Math.max(box.width, 1),
    (pane.height - 2 * MARGIN) / Math.max(box.height, 1),
  );
  const zoom = Math.min(Math.max(fitting, READABLE), 1);
  const wide = box.width * zoom > pane.width - 2 * MARGIN;
  const high = box.height * zoom > pane.height - 2 * MARGIN;
  return {
    x: wide ? MARGIN - box.x * zoom : pane.width / 2 - (box.x + box.width / 2) * zoom,
    y: high ? MARGIN - box.y * zoom : pane.height / 2 - (box.y + box.height / 2) * zoom,
    zoom,
  };
}

/** Whether a box can be seen as a whole. */
export function isInView(box: Box, view: View, pane: Size): boolean {
  const left = box.x * view.zoom + view.x;
  const top = box.y * view.zoom + view.y;
  return (
    left >= 0 &&
    top >= 0 &&
    left + box.width * view.zoom <= pane.width &&
    top + box.height * view.zoom <= pane.height
  );
}

/** The box around boxes; null without any. */
export function around(boxes: Box[]): Box | null {
  if (boxes.length === 0) return null;
  const x = Math.min(...boxes.map((box) => box.x));
  const y = Math.min(...boxes.map((box) => box.y));
  return {
    x,
    y,
    width: Math.max(...boxes.map((box) => box.x + box.width)) - x,
    height: Math.max(...boxes.map((box) => box.y + box.height)) - y,
  };
}
