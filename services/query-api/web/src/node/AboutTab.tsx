import type { GraphNode } from '../api/types';
import { CopyButton } from '../components/CopyButton';
import { count } from '../lib/format';

const KINDS: Record<string, string> = {
  source: 'reads data from outside',
  sink: 'hands data out',
  shuffle: 'sends records to other tasks by key',
  operator: 'makes records of records, inside a task',
  unknown: 'was not captured',
  'frame-source': 'read by DataFrames',
  frame: 'what an action on a DataFrame gave; traced by its recipe',
};

/** Whether a node's lineage is exact; of rows of DataFrames only the query that traces them can tell. */
function exactness(node: GraphNode): [string, string] {
  if (!node.exact) {
    const why = node.reason || 'Its lineage may name more records than were used, never fewer.';
    return ['Not exact: a superset', why];
  }
  if (node.kind === 'frame') {
    return [
      'Given by each trace',
      'The query that traces a row says whether its lineage is exact.',
    ];
  }
  if (node.kind === 'frame-source') {
    return [
      'Rows as they are read',
      'The query that traces a row says what DataFrames made of it.',
    ];
  }
  return ['Exact', 'Its lineage names just the records that were used.'];
}

function tone(node: GraphNode): string {
  if (!node.exact) return 'notice-warn';
  return node.kind.startsWith('frame') ? '' : 'notice-good';
}

/** What is known of a node beside its rows. */
export function AboutTab({ node }: { node: GraphNode }) {
  const [title, said] = exactness(node);
  const facts: [string, string | null][] = [
    [
      'Operator',
      node.description ? `${node.name || node.op} (${node.description})` : node.name || node.op,
    ],
    ['Kind', KINDS[node.kind] ? `${node.kind}: ${KINDS[node.kind] ?? ''}` : node.kind],
    ['Call site', node.call_site],
    ['Path', node.path],
    ['Partitions', node.partitions === null ? null : count(node.partitions)],
    ['Flows', count(node.flows)],
    ['Input and output pairs', count(node.associations)],
    ['Blocks', count(node.blocks)],
    ['Made in a loop', node.members.length > 1 ? `${node.members.length} times` : null],
  ];
  return (
    <div className="about">
      <div className={`notice ${tone(node)}`}>
        <p className="notice-title">{title}</p>
        <p>{said}</p>
      </div>
      <dl className="facts">
        {facts.map(([name, value]) =>
          value === null || value === '' ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
      </dl>
      {node.call_site !== '' && <CopyButton text={node.call_site}>Copy call site</CopyButton>}
    </div>
  );
}
