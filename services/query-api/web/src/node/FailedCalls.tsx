import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { failedCallsQuery } from '../api/queries';
import type { ColumnValue, Direction, FailedCall } from '../api/types';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { count, counted } from '../lib/format';

const FIRST = 20;
const MOST = 1000;

interface Props {
  app: string;
  id: string;
  busy: boolean;
  /** This server traces rows of DataFrames. */
  traced: boolean;
  onTraceValues: (direction: Direction, values: ColumnValue[]) => void;
}

/** Calls of a Python function that failed: a trace of one shows the rows of sources that were set aside for it. */
export function FailedCalls({ app, id, busy, traced, onTraceValues }: Props) {
  const [limit, setLimit] = useState(FIRST);
  const found = useQuery({
    ...failedCallsQuery(app, id, limit),
    placeholderData: keepPreviousData,
  });
  if (found.error) return <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading what="the calls that failed" />;
  const { items, total, more } = found.data;
  return (
    <section className="failed-calls" aria-label="Calls that failed">
      <h3>Set aside</h3>
      <p className="faint">
        {total === 0
          ? 'The calls that failed can’t be shown.'
          : `A function failed on ${more ? 'more than ' : ''}${counted(total, 'call')}, and the job went on without their rows.`}
      </p>
      <ul>
        {items.map((call) => (
          <li key={call.number}>
            <code>{callText(call)}</code>
            <p className="call-error">{call.error}</p>
            <p className="faint">{call.action}</p>
            {traced && (
              <button
                type="button"
                className="button button-small"
                disabled={busy}
                title="Trace backward: the rows of sources that were set aside"
                aria-label={`Trace ${callText(call)} back`}
                onClick={() =>
                  onTraceValues('backward', [{ column: 'lineage_call', value: `${call.number}` }])
                }
              >
                ← Its rows
              </button>
            )}
          </li>
        ))}
      </ul>
      {items.length < total && limit < MOST && (
        <button type="button" className="button" onClick={() => setLimit(MOST)}>
          All {count(Math.min(total, MOST))} calls
        </button>
      )}
    </section>
  );
}

/** The call as a program would write it. */
function callText({ function: name, values }: FailedCall) {
  const inner = name.replace(/\)+$/, '');
  return `${inner}(${values.join(', ')})${')'.repeat(name.length - inner.length)}`;
}
