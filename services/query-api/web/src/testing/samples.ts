/** Small things of the API for tests, with what a test does not care about filled in. */

import type {
  App,
  Graph,
  GraphNode,
  GroupCount,
  Item,
  Suspects,
  SuspectTasks,
  Trace,
} from '../api/types';

export function aNode(fields: Partial<GraphNode> & { node: string }): GraphNode {
  return {
    label: fields.node,
    what: 'map',
    kind: 'operator',
    op: 'map',
    name: 'map',
    description: '',
    call_site: 'job.py:1',
    path: null,
    exact: true,
    reason: '',
    partitions: 2,
    blocks: 1,
    flows: 1,
    associations: 1,
    members: [fields.node],
    stage: '0',
    has_items: true,
    ...fields,
  };
}

/** Unix seconds as the API has times. */
export const aTime = (seconds: number) => new Date(seconds * 1000).toISOString();

/** An application that is over, complete and exact. */
export const anApp = (app: string, fields: Partial<App> = {}): App => ({
  app,
  name: 'flights',
  status: 'ok',
  started_at: aTime(1000),
  ended_at: aTime(1074.3),
  flows: 9,
  associations: 9,
  complete: true,
  final: true,
  exact: true,
  reasons: [],
  ...fields,
});

/** A graph of links written as `a>b`. */
export function aGraph(nodes: GraphNode[], ...links: string[]): Graph {
  return {
    app: 'local-1',
    nodes,
    links: links.map((link) => {
      const [src = '', dest = ''] = link.split('>');
      return { src, dest };
    }),
  };
}

export const anItem = (address: string, fields: Partial<Item> = {}): Item => ({
  address,
  location: null,
  text: null,
  ...fields,
});

export function aGroup(node: string, count: number, items: Item[] = []): GroupCount {
  return {
    node,
    label: node,
    what: 'map',
    path: null,
    count,
    changed: false,
    gone: false,
    standing: 'same',
    items,
  };
}

export function aTrace(fields: Partial<Trace> = {}): Trace {
  return {
    trace: 't1',
    app: 'local-1',
    direction: 'backward',
    request: {
      direction: 'backward',
      start: { places: ['out/part-00000:1'] },
      until: 'ends',
      steps: null,
    },
    exact: true,
    complete: true,
    changed: false,
    reasons: [],
    warnings: [],
    start: [],
    groups: [],
    computed: false,
    through: false,
    passed: [],
    count: 0,
    ...fields,
  };
}

type Suspect = Suspects['items'][number];
type SuspectTask = SuspectTasks['tasks'][number];
const FIRST = { outputs: 1, good_outputs: 0, rank: 1, tied: 1, score: 1 };

export const aSuspect = (node: string, fields: Partial<Suspect> = {}): Suspect => ({
  ...anItem(`${node}#0#0`),
  node,
  label: `read (${node})`,
  ...FIRST,
  ...fields,
});

export const aTask = (node: string, fields: Partial<SuspectTask> = {}): SuspectTask => ({
  node,
  name: `map (${node})`,
  partition: 0,
  operators: 'read to map',
  deviations: [],
  ...FIRST,
  ...fields,
});

export const suspects = (fields: Partial<Suspects> = {}): Suspects => ({
  outputs: 1,
  good: 0,
  items: [],
  total: 0,
  suspected: 0,
  exact: true,
  complete: true,
  reasons: [],
  changed: false,
  warnings: [],
  ...fields,
});

export const suspectTasks = (fields: Partial<SuspectTasks> = {}): SuspectTasks => ({
  ...suspects(),
  app: 'local-1',
  from: [],
  items: [],
  good: [],
  formula: 'ochiai',
  tasks: [],
  tasks_total: 0,
  keys: [],
  keys_total: 0,
  ...fields,
});
