import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { completenessQuery, graphQuery } from '../api/queries';
import type { AppDetail, NodeRef, Refusal, StreamProgress } from '../api/types';
import { Place } from '../components/Place';
import { counted } from '../lib/format';

interface Props {
  detail: AppDetail;
  onSelect: (node: string) => void;
}

/** Where to begin, and the verdict in full. */
export function Overview({ detail, onSelect }: Props) {
  return (
    <div className="overview">
      <h2 tabIndex={-1}>Where to begin</h2>
      <p className="faint">
        Choose a node in the graph to see its rows; from a row, trace back to what made it or
        forward to what it went into.
      </p>
      <Ends title="Outputs" nodes={detail.sinks} onSelect={onSelect} />
      <Ends title="Sources" nodes={detail.sources} onSelect={onSelect} />
      <VerdictDetails detail={detail} onSelect={onSelect} />
    </div>
  );
}

function Ends({
  title,
  nodes,
  onSelect,
}: { title: string; nodes: NodeRef[] } & Pick<Props, 'onSelect'>) {
  if (nodes.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul className="ends">
        {nodes.map((node) => (
          <li key={node.node}>
            <button type="button" onClick={() => onSelect(node.node)}>
              <strong>{node.label}</strong>
              <Place place={node.path ?? node.what} />
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

function VerdictDetails({ detail, onSelect }: Props) {
  const { data } = useQuery(completenessQuery(detail.app));
  const reasons = [...new Set([...detail.reasons, ...(data?.reasons ?? [])])];
  const superset = Object.entries(data?.superset ?? {});
  return (
    <>
      <h3>Lineage</h3>
      {detail.complete ? (
        <div className="notice notice-good">
          <p className="notice-title">Complete</p>
          <p>Every flow of {counted(detail.nodes, 'node')} is stored and linked.</p>
        </div>
      ) : (
        <div className="notice notice-warn">
          <p className="notice-title">{detail.final ? 'Incomplete' : 'Not complete yet'}</p>
          {reasons.map((reason) => (
            <p key={reason}>{reason}</p>
          ))}
          {detail.final ? (
            <p>
              What is stored can be traced; each answer says where something is missing. If blocks
              wait in a spool, <code>lineage link</code> (or <code>lineage send</code> over Kafka)
              brings them in. What the pipeline could not use is among the{' '}
              <Link to="/dead-letters" search={{ app: detail.app }}>
                dead letters
              </Link>
              .
            </p>
          ) : (
            <p>More lineage is on its way. What has come can be traced already.</p>
          )}
        </div>
      )}
      <Refusals refusals={detail.refusals} />
      <SetAside
        app={detail.app}
        title="Set aside"
        what="Functions failed on records, and the job went on without these:"
        records={data?.set_aside ?? {}}
        onSelect={onSelect}
      />
      <SetAside
        app={detail.app}
        title="Repaired"
        what="Functions failed on records, and the job went on with others in their place:"
        records={data?.repaired ?? {}}
        onSelect={onSelect}
      />
      <Streams runs={data?.streams ?? []} />
      {detail.unknown_parts.length > 0 && (
        <>
          <h3>Parts that are not known</h3>
          <ul>
            {detail.unknown_parts.map((part) => (
              <li key={part}>{part}</li>
            ))}
          </ul>
        </>
      )}
      {superset.length > 0 && (
        <>
          <h3>Not exact</h3>
          <ul>
            {superset.map(([node, reasons]) => (
              <li key={node}>
                node {node}: {reasons.join('; ')}
              </li>
            ))}
          </ul>
        </>
      )}
      <Numbers title="Tasks" numbers={data?.tasks} />
      <Numbers title="Blocks" numbers={data?.blocks} />
    </>
  );
}

function Refusals({ refusals }: { refusals: Refusal[] }) {
  if (refusals.length === 0) return null;
  return (
    <div className="notice notice-warn">
      <p className="notice-title">Not answerable</p>
      <p>Rows of these outputs can’t be traced back, though their lineage is stored:</p>
      <ul>
        {refusals.map(({ node, what, operator, reason }) => (
          <li key={`${node} ${operator} ${reason}`}>
            node {node} ({what}): {operator && `${operator}: `}
            {reason}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Records that functions failed on and that the job went on without, by the node that holds them. */
function SetAside({
  app,
  title,
  what,
  records,
  onSelect,
}: { app: string; title: string; what: string; records: Record<string, number> } & Pick<
  Props,
  'onSelect'
>) {
  const { data } = useQuery({
    ...graphQuery(app, false),
    enabled: Object.keys(records).length > 0,
  });
  if (Object.keys(records).length === 0) return null;
  const holders = Object.entries(records).map(([node, number]) => {
    // Of an RDD's operator, they are in a node behind it.
    const own = data?.nodes.find((one) => one.members.includes(node));
    const behind = data?.nodes.find((one) => one.members.includes(`${node}:quarantine`));
    return { node: behind === undefined ? node : `${node}:quarantine`, number, own };
  });
  return (
    <div className="notice notice-warn">
      <p className="notice-title">{title}</p>
      <p>{what}</p>
      <ul className="ends">
        {holders.map(({ node, number, own }) => (
          <li key={node}>
            <button type="button" onClick={() => onSelect(node)}>
              <strong>{counted(number, 'record')}</strong>
              <Place place={own === undefined ? node : own.name || own.op} />
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** How far the batches of each query are complete, while it runs, too. */
function Streams({ runs }: { runs: StreamProgress[] }) {
  if (runs.length === 0) return null;
  return (
    <>
      <h3>Streaming queries</h3>
      <ul>
        {runs.map(({ query, run, state, committed, complete_to: completeTo, reason }) => (
          <li key={run}>
            {query.slice(0, 8)}:{' '}
            {completeTo === null
              ? 'how far it is complete is not known'
              : completeTo < 0
                ? 'complete up to no batch'
                : `complete up to batch ${completeTo}`}
            {completeTo !== committed && ` of ${committed}`} ({state}){reason && `: ${reason}`}
          </li>
        ))}
      </ul>
    </>
  );
}

function Numbers({
  title,
  numbers,
}: {
  title: string;
  numbers: Record<string, number> | undefined;
}) {
  const counts = Object.entries(numbers ?? {}).filter(([, value]) => typeof value === 'number');
  if (counts.length === 0) return null;
  return (
    <p className="faint numbers">
      {title}: {counts.map(([name, value]) => `${value.toLocaleString('en')} ${name}`).join(', ')}
    </p>
  );
}
