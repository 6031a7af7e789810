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

/** What is known of a node beside its rows. */
export function AboutTab({ node }: { node: GraphNode }) {
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
      <div className={`notice ${node.exact ? 'notice-good' : 'notice-warn'}`}>
        <p className="notice-title">{node.exact ? 'Exact' : 'Not exact: a superset'}</p>
        <p>
          {node.exact
            ? 'Its lineage names just the records that were used.'
            : node.reason || 'Its lineage may name more records than were used, never fewer.'}
        </p>
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
