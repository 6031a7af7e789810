import { useQuery } from '@tanstack/react-query';
import { useEffect, useId, useRef, useState, type ReactNode } from 'react';

import { pictureQuery } from '../api/queries';
import type { Marks, NamedArray } from '../api/types';
import { FigureTools } from './FigureTools';
import { paint, type Shades } from './painting';
import { formatPlane, indexOf, moved, tableOf, zoomed, type Block, type Plane } from './planes';

interface Props {
  app: string;
  array: NamedArray;
  plane: Plane;
  marks: Marks | null;
  shades: Shades;
  onPlane: (plane: Plane) => void;
  /** Cells were chosen, by their index. */
  onCells?: (index: string) => void;
  children?: ReactNode;
}

type Cell = readonly [number, number];
const LONGEST = 460;
const THINNEST = 28;
const ZOOM = 0.5;
const STEPS: Partial<Record<string, Cell>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** A plane of an array as a picture with cells marked; cells of it are chosen by dragging or by keys. */
export function ArrayFigure(props: Props) {
  const { app, array, plane, marks, shades, onPlane, onCells } = props;
  const [from, setFrom] = useState<Cell | null>(null);
  const [to, setTo] = useState<Cell | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const help = useId();
  const text = formatPlane(plane);
  const picture = useQuery(pictureQuery(app, array.id, text, array.file !== null));
  const base = picture.data?.plane === text ? picture.data : undefined;
  const shown = marks?.plane === text ? marks : null;
  useEffect(() => {
    let wanted = true;
    if (canvas.current !== null) {
      void paint(canvas.current, base, shown, shades, () => wanted);
    }
    return () => {
      wanted = false;
    };
  }, [base, shown, shades]);

  const { rows, columns } = tableOf(plane);
  const [tall, wide] = [rows[1] - rows[0], columns[1] - columns[0]];
  const scale = LONGEST / Math.max(tall, wide, 1);
  const cellAt = (event: { clientX: number; clientY: number; currentTarget: Element }): Cell => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = (share: number, first: number, extent: number) =>
      first + Math.min(Math.max(Math.floor(share * extent), 0), Math.max(extent - 1, 0));
    return [
      at((event.clientY - box.top) / box.height, rows[0], tall),
      at((event.clientX - box.left) / box.width, columns[0], wide),
    ];
  };
  const block = from === null || to === null ? null : blockOf(from, to);
  const choose = (one: Block | null) => one !== null && onCells?.(indexOf(plane, one));

  const onKeyDown = (event: React.KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step !== undefined) {
      const [row, column] = to ?? [rows[0] - step[0], columns[0] - step[1]];
      const next = [
        Math.min(Math.max(row + step[0], rows[0]), rows[1] - 1),
        Math.min(Math.max(column + step[1], columns[0]), columns[1] - 1),
      ] as const;
      setTo(next);
      if (!event.shiftKey || from === null) setFrom(next);
    } else if (event.key === 'Enter' || event.key === ' ') choose(block);
    else if (event.key === '+') onPlane(zoomed(plane, array.shape, ZOOM, to ?? undefined));
    else if (event.key === '-') onPlane(zoomed(plane, array.shape, 1 / ZOOM, to ?? undefined));
    else return;
    event.preventDefault();
  };

  return (
    <section className="array-figure" aria-label={`${kindOf(array)} ${array.name}`}>
      <h3>
        {array.name}{' '}
        <span className="faint">
          {array.dtype} {array.shape.join(' × ') || 'number'}
        </span>
      </h3>
      <FigureTools
        array={array}
        plane={plane}
        onZoom={(factor) => onPlane(zoomed(plane, array.shape, factor))}
        onMove={(down, right) => onPlane(moved(plane, array.shape, down, right))}
        onPlane={onPlane}
      />
      <div
        className="array-frame"
        style={{
          width: Math.max(wide * scale, THINNEST),
          height: Math.max(tall * scale, THINNEST),
        }}
      >
        <canvas
          ref={canvas}
          className="array-canvas"
          role={onCells ? 'application' : 'img'}
          tabIndex={onCells ? 0 : undefined}
          aria-label={`Cells of ${array.name}, ${text || 'one cell'}${block ? `, at ${indexOf(plane, block)}` : ''}`}
          aria-describedby={onCells && help}
          onKeyDown={onCells && onKeyDown}
          onPointerDown={
            onCells &&
            ((event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              const cell = cellAt(event);
              setFrom(cell);
              setTo(cell);
            })
          }
          onPointerMove={(event) => event.buttons === 1 && onCells && setTo(cellAt(event))}
          onPointerUp={(event) => from !== null && choose(blockOf(from, cellAt(event)))}
        />
        {block && <Outline block={block} plane={plane} />}
      </div>
      {onCells && (
        <p className="faint array-help" id={help}>
          Drag over cells, or move by arrow keys (with Shift to take more) and press Enter. + and −
          zoom.
        </p>
      )}
      {base?.low != null && (
        <p className="faint">
          {shades === 'grey' ? 'Black' : 'Dark'} is {number(base.low)},{' '}
          {shades === 'grey' ? 'white' : 'bright'} is {number(base.high ?? 0)}
          {base.steps.some((step) => step > 1) &&
            `; a pixel is the mean of ${base.steps.join(' × ')} cells`}
          .
        </p>
      )}
      {picture.error && <p className="faint">No values: {picture.error.message}</p>}
      {array.file === null && <p className="faint">No values: they were not saved in a file.</p>}
      {props.children}
    </section>
  );
}

/** The outline of chosen cells, where they lie in what is shown. */
function Outline({ block, plane }: { block: Block; plane: Plane }) {
  const { rows, columns } = tableOf(plane);
  const share = (at: number, [first, behind]: readonly [number, number]) =>
    `${((at - first) / (behind - first)) * 100}%`;
  const extent = (from: number, to: number, [first, behind]: readonly [number, number]) =>
    `${((to + 1 - from) / (behind - first)) * 100}%`;
  return (
    <div
      className="array-chosen"
      style={{
        top: share(block.top, rows),
        left: share(block.left, columns),
        height: extent(block.top, block.bottom, rows),
        width: extent(block.left, block.right, columns),
      }}
    />
  );
}

const blockOf = (a: Cell, b: Cell): Block => ({
  top: Math.min(a[0], b[0]),
  bottom: Math.max(a[0], b[0]),
  left: Math.min(a[1], b[1]),
  right: Math.max(a[1], b[1]),
});

const kindOf = (array: NamedArray) => (array.is_source ? 'Source' : 'Output');
const number = (value: number) => Number(value.toPrecision(6)).toString();
