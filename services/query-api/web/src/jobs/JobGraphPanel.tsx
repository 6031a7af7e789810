import { Link } from '@tanstack/react-router';

import type { JobGraphNode } from '../api/types';
import { useFocusOnChange } from '../pages/useFocusOnChange';
import type { GrowSide } from '../graph/GraphContext';
import { count, counted, time } from '../lib/format';
import { RunsOfDataset } from './RunsOfDataset';
import { RunsOfJob } from './RunsOfJob';
import { SIDES, type Drawing } from './jobGraph';

const TITLES = {
  job: { upstream: 'Reads', downstream: 'Writes' },
  dataset: { upstream: 'Written by', downstream: 'Read by' },
};

interface Props {
  drawing: Drawing;
  at: string | null;
  /** The node that somebody chose, where that is not just the one that the graph starts at. */
  chosen: string | null;
  onSelect: (key: string) => void;
  onGrow: (key: string, side: GrowSide) => void;
}

/** The job or dataset that is looked at, and its neighbours as lists. */
export function JobGraphPanel({ drawing, at, chosen, onSelect, onGrow }: Props) {
  const shown = useFocusOnChange(chosen ?? '');
  const node = at === null ? undefined : drawing.nodes.get(at);
  return (
    <div className="panel-content" ref={shown}>
      {node === undefined || at === null ? (
        <div className="overview">
          <h2 tabIndex={-1}>Jobs and datasets</h2>
          <p className="faint">
            Choose a job or dataset to see its runs. The numbers beside them open more: the jobs
            that write and read a dataset, the datasets that a job reads and writes.
          </p>
        </div>
      ) : (
        <NodeDetails {...{ drawing, node, onSelect, onGrow }} at={at} />
      )}
    </div>
  );
}

function NodeDetails({
  drawing,
  node,
  at,
  onSelect,
  onGrow,
}: Omit<Props, 'chosen'> & { node: JobGraphNode; at: string }) {
  const here =
    node.kind === 'job' ? { job: node.name } : { namespace: node.namespace ?? '', name: node.name };
  const drawn = drawing.graph.nodes.find((one) => one.node === at);
  return (
    <div className="overview">
      <h2 tabIndex={-1}>{node.full_name}</h2>
      <p className="faint">
        {node.kind === 'job' ? 'Job' : 'Dataset'} · {counted(node.runs, 'run')}
      </p>
      {node.last_app !== null && node.last_started_at !== null && (
        <p>
          Last run:{' '}
          <Link to="/apps/$app" params={{ app: node.last_app }}>
            {node.last_app}
          </Link>{' '}
          <span className="faint">{time(node.last_started_at)}</span>
        </p>
      )}
      <p>
        <Link className="button" to="/jobs" search={here}>
          Start here
        </Link>
      </p>
      {SIDES.map((side) => {
        const keys = drawing.graph.links.flatMap(({ src, dest }) => {
          if (side === 'upstream') return dest === at ? [src] : [];
          return src === at ? [dest] : [];
        });
        const more = drawn?.more?.[side] ?? 0;
        return (
          <section key={side} aria-label={TITLES[node.kind][side]}>
            <h3>
              {TITLES[node.kind][side]} <span className="chip-count">{count(node[side])}</span>
            </h3>
            <ul className="ends">
              {keys.map((key) => (
                <li key={key}>
                  <button type="button" onClick={() => onSelect(key)}>
                    {drawing.nodes.get(key)?.full_name}
                  </button>
                </li>
              ))}
            </ul>
            {more > 0 && (
              <button type="button" className="button" onClick={() => onGrow(at, side)}>
                Show more of {count(more)} others
              </button>
            )}
          </section>
        );
      })}
      {node.kind === 'job' ? (
        <RunsOfJob key={node.name} job={node.name} />
      ) : (
        <RunsOfDataset key={at} namespace={node.namespace ?? ''} name={node.name} />
      )}
    </div>
  );
}
