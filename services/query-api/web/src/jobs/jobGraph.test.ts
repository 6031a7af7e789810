import { describe, expect, it } from 'vitest';

import type { JobGraph, JobGraphNode } from '../api/types';
import { GROWN_NODES, drawingOf, growth, keyOf, openedSides, startOf } from './jobGraph';

const aJob = (name: string, upstream: number, downstream: number): JobGraphNode => ({
  kind: 'job',
  namespace: null,
  name,
  full_name: name,
  upstream,
  downstream,
  runs: 1,
  last_app: 'app-1',
  last_started_at: '2026-11-26T04:10:00.250Z',
});
const aDataset = (name: string, upstream: number, downstream: number): JobGraphNode => ({
  ...aJob(name, upstream, downstream),
  kind: 'dataset',
  namespace: 'file',
  full_name: `file:${name}`,
});
const answer = (nodes: JobGraphNode[], ...links: [number, number][]): JobGraph => ({
  nodes,
  links: links.map(([source, target]) => ({ source, target })),
  truncated: false,
  runs: 1,
  runs_total: 1,
  runs_withheld: 0,
});

describe('keys of jobs and datasets', () => {
  it('name one node, whatever its name holds', () => {
    const nodes = [aJob('a:b > c, "d" é%', 0, 0), aDataset('/a b/%20:c;d', 0, 0), aJob('x', 0, 0)];
    for (const node of nodes) {
      const { kind, name, namespace } = node;
      expect(startOf(keyOf(node))).toEqual(kind === 'job' ? { job: name } : { namespace, name });
    }
    expect(keyOf(aJob('file:/a', 0, 0))).not.toBe(keyOf(aDataset('/a', 0, 0)));
  });

  it('that are none start nothing', () => {
    for (const key of [
      '',
      'job:',
      'job:a:b',
      'dataset:file',
      'dataset:a:b:c',
      'other:a',
      'job:%',
    ]) {
      expect(startOf(key)).toBeNull();
    }
  });
});

describe('sides that were opened', () => {
  it('show more for each click, and no nodes that are none', () => {
    const key = keyOf(aDataset('/a', 0, 0));
    const grown = [growth('upstream', key), growth('downstream', 'odd'), 'sideways job:a'];
    expect(openedSides([...grown, growth('upstream', key)])).toEqual([
      { start: { namespace: 'file', name: '/a' }, side: 'upstream', limit: 1 + 3 * GROWN_NODES },
    ]);
  });
});

describe('a drawing', () => {
  const [read, job, wrote, other] = [
    aDataset('/in', 2, 1),
    aJob('totals', 1, 1),
    aDataset('/out', 1, 0),
    aJob('clean', 0, 1),
  ];
  const first = answer([job, read, wrote], [1, 0], [0, 2]);
  const grown = answer([read, other], [1, 0]);

  it('is all answers together, each node and link once', () => {
    const { graph } = drawingOf([first, grown, grown]);
    expect(graph.nodes.map(({ label }) => label)).toEqual(['totals', 'in', 'out', 'clean']);
    expect(graph.links).toHaveLength(3);
  });

  it('counts the neighbours that are not drawn', () => {
    const more = (answers: JobGraph[]) =>
      drawingOf(answers).graph.nodes.find(({ label }) => label === 'in')?.more;
    expect(more([first])).toEqual({ upstream: 2, downstream: 0 });
    expect(more([first, grown])).toEqual({ upstream: 1, downstream: 0 });
  });
});
