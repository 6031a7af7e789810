import type { NamedArray } from '../api/types';
import { isRange, lengthsOf, tableOf, type Plane } from './planes';

interface Props {
  array: NamedArray;
  plane: Plane;
  onZoom: (factor: number) => void;
  onMove: (down: number, right: number) => void;
  onPlane: (plane: Plane) => void;
}

const MOVES = [
  ['Up', '↑', -0.5, 0],
  ['Down', '↓', 0.5, 0],
  ['Left', '←', 0, -0.5],
  ['Right', '→', 0, 0.5],
] as const;

/** Buttons to zoom and to move, and the coordinates of the axes that are not shown. */
export function FigureTools({ array, plane, onZoom, onMove, onPlane }: Props) {
  const { rows, columns } = tableOf(plane);
  const [tall, wide] = lengthsOf(plane, array.shape);
  const isPart = rows[1] - rows[0] < tall || columns[1] - columns[0] < wide;
  const button = (label: string, sign: string, run: () => void, disabled: boolean) => (
    <button
      key={label}
      type="button"
      className="button button-small"
      aria-label={`${label}: ${array.name}`}
      title={label}
      disabled={disabled}
      onClick={run}
    >
      {sign}
    </button>
  );
  return (
    <div className="array-tools">
      {button('Zoom in', '+', () => onZoom(0.5), false)}
      {button('Zoom out', '−', () => onZoom(2), !isPart)}
      {isPart &&
        MOVES.map(([label, sign, down, right]) =>
          button(label, sign, () => onMove(down, right), false),
        )}
      {plane.map(
        (part, axis) =>
          !isRange(part) && (
            <label key={axis}>
              axis {axis}{' '}
              <input
                className="input array-axis"
                type="number"
                min={0}
                max={(array.shape[axis] ?? 1) - 1}
                value={part}
                onChange={(event) => {
                  const at = event.target.valueAsNumber;
                  if (at >= 0 && at < (array.shape[axis] ?? 1)) {
                    onPlane(plane.map((one, other) => (other === axis ? at : one)));
                  }
                }}
              />
            </label>
          ),
      )}
    </div>
  );
}
