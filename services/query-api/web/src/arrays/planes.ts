/** Planes of arrays: for each axis a coordinate, or the range (first, behind the last) of one that is shown. */

export type Part = number | readonly [number, number];

/** What is looked at of an array; rows and columns are its last two ranges. */
export type Plane = readonly Part[];

/** Ranges of rows and columns, each with the axis that it lies on; an axis that is not there has one cell. */
export interface Table {
  rows: readonly [number, number];
  columns: readonly [number, number];
}

/** Cells of a plane from one corner to another, both within it: rows and columns of the array. */
export interface Block {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

export const isRange = (part: Part): part is readonly [number, number] => typeof part !== 'number';

/** A plane as the service writes it: `3,0:40,10:80`; empty for an array without axes. */
export function parsePlane(text: string): Plane {
  if (text === '') return [];
  return text.split(',').map((part) => {
    const [first = '', behind] = part.split(':');
    return behind === undefined ? Number(first) : ([Number(first), Number(behind)] as const);
  });
}

export const formatPlane = (plane: Plane): string =>
  plane.map((part) => (isRange(part) ? `${part[0]}:${part[1]}` : `${part}`)).join(',');

export function tableOf(plane: Plane): Table {
  const [columns = [0, 1] as const, rows = [0, 1] as const] = plane.filter(isRange).reverse();
  return { rows, columns };
}

/** The same plane with other ranges of rows and columns. */
export function withTable(plane: Plane, { rows, columns }: Table): Plane {
  const ranges = plane.filter(isRange).length === 1 ? [columns] : [rows, columns];
  let at = 0;
  return plane.map((part) => (isRange(part) ? (ranges[at++] ?? part) : part));
}

/** The lengths of the axes on which a plane has its rows and columns. */
export function lengthsOf(plane: Plane, shape: readonly number[]): readonly [number, number] {
  const [columns = 1, rows = 1] = shape.filter((_, axis) => isRange(plane[axis] ?? 0)).reverse();
  return [rows, columns];
}

const LEAST = 4;

/** A plane of a part of the rows and columns, about a cell of it; a factor above one shows more. */
export function zoomed(
  plane: Plane,
  shape: readonly number[],
  factor: number,
  about?: readonly [number, number],
): Plane {
  const { rows, columns } = tableOf(plane);
  const [tall, wide] = lengthsOf(plane, shape);
  return withTable(plane, {
    rows: scaled(rows, tall, factor, about?.[0]),
    columns: scaled(columns, wide, factor, about?.[1]),
  });
}

function scaled(
  [first, behind]: readonly [number, number],
  length: number,
  factor: number,
  about = (first + behind) / 2,
): readonly [number, number] {
  const before = behind - first;
  const after = Math.min(Math.max(Math.round(before * factor), LEAST), length);
  const share = before === 0 ? 0 : (about - first) / before;
  return placed(Math.round(about - share * after), after, length);
}

/** A range of some length that lies on an axis. */
function placed(first: number, extent: number, length: number): readonly [number, number] {
  const begin = Math.max(Math.min(first, length - extent), 0);
  return [begin, begin + extent];
}

/** A plane moved by shares of what it shows. */
export function moved(plane: Plane, shape: readonly number[], down: number, right: number): Plane {
  const { rows, columns } = tableOf(plane);
  const [tall, wide] = lengthsOf(plane, shape);
  const by = ([first, behind]: readonly [number, number], share: number, length: number) =>
    placed(first + Math.round((behind - first) * share), behind - first, length);
  return withTable(plane, { rows: by(rows, down, tall), columns: by(columns, right, wide) });
}

/** The index of some cells of a plane, as addresses have it: `3,4:9,7`. */
export function indexOf(plane: Plane, { top, bottom, left, right }: Block): string {
  const range = (first: number, last: number) =>
    first === last ? `${first}` : `${first}:${last + 1}`;
  const [columns, rows] = [range(left, right), range(top, bottom)];
  const ranges = plane.filter(isRange).length === 1 ? [columns] : [rows, columns];
  let at = 0;
  return plane.map((part) => (isRange(part) ? (ranges[at++] ?? '') : `${part}`)).join(',');
}

/** Coordinates of a position (row-major), which may be more than a number holds. */
export function coordinatesOf(position: bigint, shape: readonly number[]): bigint[] {
  const coordinates: bigint[] = [];
  let rest = position;
  for (const length of [...shape].reverse()) {
    coordinates.unshift(rest % BigInt(length));
    rest /= BigInt(length);
  }
  return coordinates;
}

/** The first positions of ranges such as `0-3 7 12`. */
export function firstPositions(ranges: string, most: number): bigint[] {
  const positions: bigint[] = [];
  for (const run of ranges.split(' ').filter((one) => one !== '')) {
    const [first = '', last = first] = run.split('-');
    for (let at = BigInt(first); at <= BigInt(last); at++) {
      if (positions.length >= most) return positions;
      positions.push(at);
    }
  }
  return positions;
}

/** Sorted positions as ranges: neighbours are one run. */
export function rangesOf(positions: readonly bigint[]): string {
  const runs: [bigint, bigint][] = [];
  for (const at of positions) {
    const run = runs.at(-1);
    if (run !== undefined && run[1] + 1n === at) run[1] = at;
    else runs.push([at, at]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(' ');
}
