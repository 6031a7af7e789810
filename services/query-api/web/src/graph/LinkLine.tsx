import { BaseEdge, getBezierPath, type EdgeProps } from '@xyflow/react';
import { memo } from 'react';

import type { LinkElement } from './elements';
import type { Point } from './layout';

const RADIUS = 8;

export const LinkLine = memo(function LinkLine(props: EdgeProps<LinkElement>) {
  const bends = props.data?.bends;
  const [path] = bends === undefined ? getBezierPath(props) : [rounded(bends)];
  return <BaseEdge id={props.id} path={path} markerEnd={props.markerEnd} interactionWidth={0} />;
});

/** A line through points with rounded corners. */
export function rounded(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return '';
  let path = `M${first.x},${first.y}`;
  let from = first;
  rest.forEach((point, index) => {
    const to = rest[index + 1];
    if (to === undefined) {
      path += `L${point.x},${point.y}`;
      return;
    }
    const radius = Math.min(RADIUS, distance(from, point) / 2, distance(point, to) / 2);
    const enter = towards(point, from, radius);
    const leave = towards(point, to, radius);
    path += `L${enter.x},${enter.y}Q${point.x},${point.y} ${leave.x},${leave.y}`;
    from = point;
  });
  return path;
}

const distance = (a: Point, b: Point) => Math.hypot(a.x - b.x, a.y - b.y);

function towards(from: Point, to: Point, by: number): Point {
  const all = distance(from, to) || 1;
  return { x: from.x + ((to.x - from.x) * by) / all, y: from.y + ((to.y - from.y) * by) / all };
}
