import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { influenceQuery } from '../api/queries';
import { Problem } from '../api/problem';
import type { Influence, Trace } from '../api/types';
import { ErrorNotice } from '../components/ErrorNotice';
import { Place } from '../components/Place';
import { SparkWait } from '../components/SparkWait';
import { count, counted } from '../lib/format';
import { parseExact, shownText } from '../results/exactJson';

const SHOWN = 50;

/** Beside a traced row of a DataFrame: what it would be without each row that it was made from. */
export function InfluenceList({ trace }: { trace: Trace }) {
  const [isAsked, setIsAsked] = useState(false);
  const place = tracedRow(trace);
  if (place === null) return null;
  return (
    <section className="influence" aria-label="Influence of rows">
      {isAsked ? (
        <Influences app={trace.app} place={place} />
      ) : (
        <button
          type="button"
          className="button button-small button-quiet"
          title="What the row would be without each row that it was made from"
          onClick={() => setIsAsked(true)}
        >
          What if a row were missing
        </button>
      )}
    </section>
  );
}

function Influences({ app, place }: { app: string; place: string }) {
  const query = useQuery(influenceQuery(app, place, SHOWN));
  const { error, data } = query;
  if (error instanceof Problem && (error.status === 422 || error.status === 403)) {
    return (
      <p className="faint" role="status">
        What it would be without a row is not known here: {error.message}.
      </p>
    );
  }
  if (error) return <ErrorNotice error={error} onRetry={() => void query.refetch()} />;
  if (data === undefined) return <SparkWait what="what it would be without each row" />;
  return (
    <>
      <table className="items level-counts">
        <caption>Without each of the {counted(data.witnesses, 'row')} that it is made from</caption>
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">Without</th>
            <th scope="col">It would be</th>
          </tr>
        </thead>
        <tbody>
          {data.rows.map((row) => (
            <tr key={row.location}>
              <td>
                {count(row.rank)}
                {row.tied > 1 && <span className="faint"> ({count(row.tied)} tied)</span>}
              </td>
              <td title={row.text}>
                <Place place={row.location} />
              </td>
              <td>{outcomeOf(row)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {data.witnesses > data.rows.length && (
        <p className="faint">
          The first {count(data.rows.length)} of {count(data.witnesses)}, those that change it most.
        </p>
      )}
      {data.warnings.map((warning) => (
        <p key={warning} className="faint">
          {warning}
        </p>
      ))}
    </>
  );
}

/** The columns that would have other values, in their very digits. */
function outcomeOf({ after, changed, unsure }: Influence['rows'][number]): string {
  if (after === null) return 'no row';
  if (changed.length === 0) return 'the same';
  const row = parseExact(after) as Record<string, Parameters<typeof shownText>[0]>;
  return changed
    .map((name) => {
      const about = unsure.includes(name) ? ' (approximate)' : '';
      return `${name}: ${shownText(row[name] ?? null)}${about}`;
    })
    .join(', ');
}

/** The place of the one row of a DataFrame that a trace begins at; null: there is no such row, or there are several. */
function tracedRow(trace: Trace): string | null {
  if (!trace.computed || trace.through || trace.direction !== 'backward') return null;
  const [group, ...others] = trace.start;
  if (group?.count !== 1 || others.length > 0) return null;
  const [row] = group.items;
  return row?.location ?? null;
}
