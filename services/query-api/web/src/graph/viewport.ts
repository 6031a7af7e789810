import type { Box, Point } from './layout';

export interface View extends Point {
  zoom: number;
}

interface Size {
  width: number;
  height: number;
}

const MARGIN = 28;
/** The smallest letters of the graph have 13 px, and what is less than 11 px can't be read. */
export const READABLE = 11 / 13;

/**
 * All of a box if it can be read then, else what is most wanted of it: the part that ends with `ends`
 * (what its outputs take up); without them its beginning.
 */
export function viewOf(box: Box, pane: Size, ends: Box | null = null): View {
  const fitting = Math.min(
    (pane.width - 2 * MARGIN) / Math.max(box.width, 1),
    (pane.height - 2 * MARGIN) / Math.max(box.height, 1),
  );
  const zoom = Math.min(Math.max(fitting, READABLE), 1);
  const wide = box.width * zoom > pane.width - 2 * MARGIN;
  const high = box.height * zoom > pane.height - 2 * MARGIN;
  const wanted = ends ?? { ...box, width: 0, height: 0 };
  return {
    x: wide
      ? within(pane.width - MARGIN - (wanted.x + wanted.width) * zoom, box.x, box.width, pane.width)
      : pane.width / 2 - (box.x + box.width / 2) * zoom,
    y: high
      ? within(
          pane.height / 2 - (wanted.y + wanted.height / 2) * zoom,
          box.y,
          box.height,
          pane.height,
        )
      : pane.height / 2 - (box.y + box.height / 2) * zoom,
    zoom,
  };

  /** Moved so that no room is left empty that the box could take up. */
  function within(offset: number, start: number, length: number, room: number): number {
    const first = MARGIN - start * zoom;
    return Math.min(first, Math.max(offset, room - MARGIN - (start + length) * zoom));
  }
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
