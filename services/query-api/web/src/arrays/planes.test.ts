import { describe, expect, it } from 'vitest';

import {
  coordinatesOf,
  firstPositions,
  formatPlane,
  indexOf,
  moved,
  parsePlane,
  rangesOf,
  tableOf,
  zoomed,
} from './planes';

const whole = parsePlane('3,0:40,0:80');
const SHAPE = [9, 40, 80];

describe('planes', () => {
  it('are read and written as the service has them', () => {
    expect(whole).toEqual([3, [0, 40], [0, 80]]);
    for (const text of ['3,0:40,0:80', '', '0:7', '4']) {
      expect(formatPlane(parsePlane(text))).toBe(text);
    }
    expect(tableOf(parsePlane('0:7'))).toEqual({ rows: [0, 1], columns: [0, 7] });
    expect(tableOf(parsePlane(''))).toEqual({ rows: [0, 1], columns: [0, 1] });
  });

  it('show a part about a cell, and all again', () => {
    const part = zoomed(whole, SHAPE, 0.5, [10, 60]);
    expect(formatPlane(part)).toBe('3,5:25,30:70');
    expect(formatPlane(zoomed(part, SHAPE, 100))).toBe('3,0:40,0:80');
    // Never less than some cells.
    expect(formatPlane(zoomed(whole, SHAPE, 0.0001, [39, 0]))).toBe('3,35:39,0:4');
  });

  it('move within the array', () => {
    const part = parsePlane('3,5:25,30:70');
    expect(formatPlane(moved(part, SHAPE, 0.5, -0.25))).toBe('3,15:35,20:60');
    expect(formatPlane(moved(part, SHAPE, 9, 9))).toBe('3,20:40,40:80');
    expect(formatPlane(moved(part, SHAPE, -9, -9))).toBe('3,0:20,0:40');
  });

  it('name cells as addresses do', () => {
    const block = { top: 4, bottom: 8, left: 7, right: 7 };
    expect(indexOf(whole, block)).toBe('3,4:9,7');
    expect(indexOf(parsePlane('0:80'), { ...block, top: 0, bottom: 0 })).toBe('7');
    expect(indexOf([], block)).toBe('');
  });

  it('have coordinates of positions, however large', () => {
    expect(coordinatesOf(3203n, [9, 40, 80])).toEqual([1n, 0n, 3n]);
    expect(coordinatesOf(2n ** 61n + 5n, [2, 2 ** 61])).toEqual([1n, 5n]);
    expect(coordinatesOf(0n, [])).toEqual([]);
    expect(firstPositions('0-3 7 12-4000000000000000000', 7)).toEqual([
      0n,
      1n,
      2n,
      3n,
      7n,
      12n,
      13n,
    ]);
    expect(firstPositions('', 7)).toEqual([]);
    for (const ranges of ['0-3 7 12-13', '4', '4000000000000000000-4000000000000000001', '']) {
      expect(rangesOf(firstPositions(ranges, 7))).toBe(ranges);
    }
  });
});
