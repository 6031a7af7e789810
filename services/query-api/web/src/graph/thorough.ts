/** The layout of graphs that a person reads whole, by ELK in its own worker. */

import ELK, { type ElkNode } from 'elkjs/lib/elk-api';
import elkWorker from 'elkjs/lib/elk-worker.min.js?url';

import {
  GAP_X,
  GAP_Y,
  NODE_HEIGHT,
  NODE_WIDTH,
  STAGE_PADDING,
  STAGE_TITLE,
  linkId,
  type Layout,
  type LayoutInput,
} from './layout';

const SPACING = {
  'elk.spacing.nodeNode': String(GAP_Y),
  'elk.layered.spacing.nodeNodeBetweenLayers': String(GAP_X),
  'elk.layered.spacing.edgeNodeBetweenLayers': '16',
  'elk.spacing.edgeNode': '14',
};

const OPTIONS = {
  ...SPACING,
  'elk.algorithm': 'layered',
  'elk.direction': 'RIGHT',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
  'elk.layered.considerModelOrder.strategy': 'PREFER_NODES',
  'elk.json.shapeCoords': 'ROOT',
  'elk.json.edgeCoords': 'ROOT',
};

const STAGE_OPTIONS = {
  ...SPACING,
  'elk.padding': `[top=${STAGE_PADDING + STAGE_TITLE},left=${STAGE_PADDING},bottom=${STAGE_PADDING},right=${STAGE_PADDING}]`,
};

let elk: InstanceType<typeof ELK> | undefined;

export async function thorough(input: LayoutInput): Promise<Layout> {
  elk ??= new ELK({ workerFactory: () => new Worker(elkWorker) });
  return fromElk(await elk.layout(toElk(input)));
}

function toElk({ nodes, links }: LayoutInput): ElkNode {
  const stages = new Map<string, ElkNode>();
  const children: ElkNode[] = [];
  for (const { id, stage } of nodes) {
    const node: ElkNode = { id: `n:${id}`, width: NODE_WIDTH, height: NODE_HEIGHT };
    if (stage === '') {
      children.push(node);
      continue;
    }
    let box = stages.get(stage);
    if (box === undefined) {
      box = { id: `s:${stage}`, children: [], layoutOptions: STAGE_OPTIONS };
      stages.set(stage, box);
      children.push(box);
    }
    box.children?.push(node);
  }
  const edges = links.map((link) => ({
    id: linkId(link),
    sources: [`n:${link.src}`],
    targets: [`n:${link.dest}`],
  }));
  return { id: 'root', layoutOptions: OPTIONS, children, edges };
}

function fromElk(root: ElkNode): Layout {
  const layout: Layout = { nodes: {}, stages: {}, bends: {} };
  const visit = (node: ElkNode) => {
    const at = { x: node.x ?? 0, y: node.y ?? 0 };
    const id = node.id.slice(2);
    if (node.id.startsWith('n:')) layout.nodes[id] = at;
    else layout.stages[id] = { ...at, width: node.width ?? 0, height: node.height ?? 0 };
    node.children?.forEach(visit);
  };
  root.children?.forEach(visit);
  for (const edge of root.edges ?? []) {
    const section = edge.sections?.[0];
    if (section === undefined) continue;
    layout.bends[edge.id] = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
  }
  return layout;
}
