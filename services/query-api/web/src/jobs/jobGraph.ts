/** Jobs and datasets as a graph that is drawn: answers about some of them, put together. */

import type { JobGraphStart } from '../api/lineage';
import type { JobGraph, JobGraphNode } from '../api/types';
import { apartNode, type DisplayGraph, type DisplayNode } from '../graph/display';
import type { GrowSide } from '../graph/GraphContext';
import { counted } from '../lib/format';

/** How many nodes a side shows at first, and how many more by each click. */
export const GROWN_NODES = 40;
export const SIDES = ['upstream', 'downstream'] as const;
const LIMIT_MAX = 1_000;

/** Identifies a node; holds no characters that layouts and addresses mean something by. */
export function keyOf({
  kind,
  namespace,
  name,
}: Pick<JobGraphNode, 'kind' | 'namespace' | 'name'>) {
  return kind === 'job'
    ? `job:${encodeURIComponent(name)}`
    : `dataset:${encodeURIComponent(namespace ?? '')}:${encodeURIComponent(name)}`;
}

/** The node of a key, to start a request at; null if it is none. */
export function startOf(key: string): JobGraphStart | null {
  try {
    const [kind, first = '', second = '', ...rest] = key.split(':').map(decodeURIComponent);
    if (rest.length > 0 || first === '') return null;
    if (kind === 'job' && second === '') return { job: first };
    return kind === 'dataset' && second !== '' ? { namespace: first, name: second } : null;
  } catch {
    return null;
  }
}

export interface Opened {
  start: JobGraphStart;
  side: GrowSide;
  limit: number;
}

export const growth = (side: GrowSide, key: string) => `${side} ${key}`;

/** The requests for sides that were opened; one that was opened again asks for more. */
export function openedSides(grown: readonly string[]): Opened[] {
  const times = new Map<string, number>();
  for (const one of grown) times.set(one, (times.get(one) ?? 0) + 1);
  return [...times].flatMap(([one, clicks]): Opened[] => {
    const side = SIDES.find((some) => one.startsWith(`${some} `));
    const start = side === undefined ? null : startOf(one.slice(side.length + 1));
    if (side === undefined || start === null) return [];
    // What is drawn already may come first.
    return [{ start, side, limit: Math.min(1 + GROWN_NODES * (clicks + 1), LIMIT_MAX) }];
  });
}

export interface Drawing {
  graph: DisplayGraph;
  nodes: ReadonlyMap<string, JobGraphNode>;
}

/** All answers as one graph; of a node that several hold the last is shown. */
export function drawingOf(answers: readonly JobGraph[]): Drawing {
  const nodes = new Map<string, JobGraphNode>();
  const links = new Map<string, { src: string; dest: string }>();
  for (const answer of answers) {
    const keys = answer.nodes.map(keyOf);
    answer.nodes.forEach((node, at) => nodes.set(keys[at] ?? '', node));
    for (const { source, target } of answer.links) {
      const [src, dest] = [keys[source] ?? '', keys[target] ?? ''];
      links.set(`${src} ${dest}`, { src, dest });
    }
  }
  const drawn = [...links.values()];
  return {
    nodes,
    graph: {
      nodes: [...nodes].map(([key, node]) => displayNode(key, node, drawn)),
      links: drawn,
      standsFor: new Map([...nodes.keys()].map((key) => [key, key])),
    },
  };
}

function displayNode(
  key: string,
  node: JobGraphNode,
  links: readonly { src: string; dest: string }[],
): DisplayNode {
  const cut = node.kind === 'dataset' ? node.full_name.lastIndexOf('/') : -1;
  const title = node.full_name.slice(cut + 1) || node.full_name;
  return apartNode({
    node: key,
    name: title,
    what: node.full_name,
    path: node.kind === 'dataset' ? node.full_name.slice(0, Math.max(cut, 0)) : 'job',
    kind: node.kind,
    description: counted(node.runs, 'run'),
    more: {
      upstream: node.upstream - links.filter(({ dest }) => dest === key).length,
      downstream: node.downstream - links.filter(({ src }) => src === key).length,
    },
  });
}
