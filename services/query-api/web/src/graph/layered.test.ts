import { describe, expect, it } from 'vitest';

import { layered } from './layered';
import { NODE_HEIGHT, NODE_WIDTH, extent, type Box, type LayoutInput } from './layout';

const input = (stages: Record<string, string>, ...links: string[]): LayoutInput => ({
  nodes: Object.entries(stages).map(([id, stage]) => ({ id, stage })),
  links: links.map((link) => {
    const [src = '', dest = ''] = link.split('>');
    return { src, dest };
  }),
});

const overlap = (a: Box, b: Box) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

describe('the simple layout', () => {
  it('goes from left to right', () => {
    const { nodes } = layered(input({ a: '0', b: '0', c: '1' }, 'a>b', 'b>c'));
    expect(nodes.a?.x).toBeLessThan(nodes.b?.x ?? 0);
    expect(nodes.b?.x).toBeLessThan(nodes.c?.x ?? 0);
  });

  it('keeps the nodes of a stage in its box', () => {
    const { nodes, stages } = layered(input({ a: '0', b: '0', c: '1' }, 'a>b', 'b>c'));
    const box = stages['0'];
    for (const at of [nodes.a, nodes.b]) {
      expect(at?.x).toBeGreaterThan(box?.x ?? NaN);
      expect((at?.x ?? NaN) + NODE_WIDTH).toBeLessThan((box?.x ?? 0) + (box?.width ?? 0));
      expect((at?.y ?? NaN) + NODE_HEIGHT).toBeLessThan((box?.y ?? 0) + (box?.height ?? 0));
    }
  });

  it('survives loops, of nodes and of stages', () => {
    const { nodes } = layered(input({ a: '0', b: '1', c: '1' }, 'a>b', 'b>c', 'c>b', 'c>a'));
    expect(Object.keys(nodes)).toHaveLength(3);
  });

  it('draws no box for nodes without a stage', () => {
    const { nodes, stages } = layered(input({ a: '', b: '' }, 'a>b'));
    expect(stages).toEqual({});
    expect(nodes.a).not.toEqual(nodes.b);
  });

  it('lets nothing overlap, and is quick', () => {
    const stages: Record<string, string> = {};
    const links: string[] = [];
    for (let i = 0; i < 5000; i += 1) {
      stages[i] = String(Math.floor(i / 8));
      if (i % 8 > 0) links.push(`${i - 1}>${i}`);
      if (i >= 200 && i % 8 === 0) links.push(`${i - 1 - ((i * 7) % 190)}>${i}`);
    }
    const started = performance.now();
    const layout = layered(input(stages, ...links));
    expect(performance.now() - started).toBeLessThan(2000);
    expect(Object.keys(layout.nodes)).toHaveLength(5000);
    const boxes = Object.values(layout.stages).slice(0, 300);
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => expect(overlap(a, b)).toBe(false)));
    expect(extent(layout).width).toBeGreaterThan(0);
  });
});
