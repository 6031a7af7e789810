import { Panel, useReactFlow, useStore } from '@xyflow/react';
import { useMemo, type PointerEvent } from 'react';

import { NODE_HEIGHT, NODE_WIDTH, extent, type Layout } from './layout';

const WIDTH = 190;
const [LOWEST, HIGHEST] = [26, 130];

/** The graph in small, with the part that is in view. All nodes are one path: there may be thousands. */
export function GraphMap({ layout }: { layout: Layout }) {
  const flow = useReactFlow();
  const view = useStore(
    ({ transform: [x, y, zoom], width, height }) =>
      `M${-x / zoom} ${-y / zoom}h${width / zoom}v${height / zoom}h${-width / zoom}z`,
  );
  const whole = useMemo(() => extent(layout), [layout]);
  const height = Math.min(Math.max((WIDTH * whole.height) / whole.width, LOWEST), HIGHEST);
  const nodes = useMemo(
    () =>
      Object.values(layout.nodes)
        .map(({ x, y }) => `M${x} ${y}h${NODE_WIDTH}v${NODE_HEIGHT}h${-NODE_WIDTH}z`)
        .join(''),
    [layout],
  );
  const goTo = (event: PointerEvent<SVGSVGElement>) => {
    if (event.buttons === 0) return;
    const to = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      event.currentTarget.getScreenCTM()?.inverse(),
    );
    void flow.setCenter(to.x, to.y, { zoom: flow.getZoom() });
  };
  return (
    <Panel position="bottom-right" className="map">
      <svg
        width={WIDTH}
        height={height}
        viewBox={`${whole.x} ${whole.y} ${whole.width} ${whole.height}`}
        onPointerDown={goTo}
        onPointerMove={goTo}
        aria-hidden
      >
        <path className="map-nodes" d={nodes} />
        <path className="map-view" d={view} />
      </svg>
    </Panel>
  );
}
