import { expect, it } from 'vitest';

import { isInView, viewOf } from './viewport';

const pane = { width: 800, height: 600 };

it('shows all of a graph in the middle if it can be read then', () => {
  const view = viewOf({ x: 0, y: 0, width: 400, height: 200 }, pane);
  expect(view).toEqual({ x: 200, y: 200, zoom: 1 });
});

it('shows the beginning of a graph that is too large', () => {
  const view = viewOf({ x: 0, y: 0, width: 50_000, height: 200 }, pane);
  expect(view.zoom).toBeGreaterThan(0.5);
  expect(view.x).toBeGreaterThan(0);
  expect(view.x).toBeLessThan(60);
});

it('shows the outputs of a graph that is too large, and lets no room be empty', () => {
  const box = { x: 0, y: 0, width: 7000, height: 3000 };
  const output = { x: 6800, y: 1400, width: 166, height: 80 };
  const view = viewOf(box, pane, output);
  expect(isInView(output, view, pane)).toBe(true);
  const early = { x: 0, y: 0, width: 166, height: 80 };
  const first = viewOf(box, pane, early);
  expect(isInView(early, first, pane)).toBe(true);
  expect([first.x, first.y]).toEqual([28, 28]);
});

it('draws the smallest letters of a first view with 11 px at the least', () => {
  const view = viewOf({ x: 0, y: 0, width: 50_000, height: 200 }, pane);
  expect(13 * view.zoom).toBeGreaterThanOrEqual(11);
});

it('tells what is in view', () => {
  const view = { x: 0, y: 0, zoom: 0.5 };
  expect(isInView({ x: 100, y: 100, width: 100, height: 50 }, view, pane)).toBe(true);
  expect(isInView({ x: 1590, y: 100, width: 100, height: 50 }, view, pane)).toBe(false);
});
