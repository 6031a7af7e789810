import type { ReactNode } from 'react';

import { Empty } from '../components/Empty';
import { counted } from '../lib/format';
import { Notes } from '../trace/TraceNotes';
import { Listed } from './Listed';
import type { ReplayResult, ReplayedRow } from './reading';

/** Rows as the job gave them, and beside them as the replay gives them. */
export function ReplayView({ result }: { result: ReplayResult }): ReactNode {
  return (
    <>
      <p className="faint">{headingOf(result)}</p>
      {result.jobs.length > 0 && (
        <>
          <h3>Jobs before</h3>
          <ul className="plain-rows">
            {result.jobs.map((job) => (
              <li key={job}>{job}</li>
            ))}
          </ul>
        </>
      )}
      <Notes notes={result.notes} />
      {result.rows.length === 0 && <Empty title="No row was replayed." />}
      <Listed of={result.rows} what="row">
        {(rows) => (
          <div className="table-frame">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">State</th>
                  <th scope="col">Before</th>
                  <th scope="col">After</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row, at) => (
                  <tr key={at}>
                    <td>{row.state}</td>
                    <td className="suspect-text">
                      {row.place !== null && <span className="start-place">{row.place} </span>}
                      {row.before}
                    </td>
                    <td className="suspect-text">{afterOf(row)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Listed>
      {result.added.length > 0 && (
        <>
          <h3>New rows</h3>
          <Listed of={result.added} what="row">
            {(rows) => (
              <ul className="plain-rows">
                {rows.map((row, at) => (
                  <li key={at}>{row}</li>
                ))}
              </ul>
            )}
          </Listed>
        </>
      )}
    </>
  );
}

function headingOf({ app, witnesses, leftOut, readsAll }: ReplayResult): string {
  const made = `${counted(witnesses, 'row')} that the output is made from`;
  if (readsAll) return `${app}, on all rows of its sources but ${counted(leftOut, 'row')}`;
  return `${app}, on the ${made}${leftOut > 0 ? `, with ${counted(leftOut, 'row')} left out` : ''}`;
}

function afterOf({ after, state }: ReplayedRow): ReactNode {
  if (after.length === 0) return <span className="faint">no row</span>;
  if (state === 'same') return <span className="faint">the same</span>;
  return after.length === 1 ? after[0] : `one of: ${after.join(' | ')}`;
}
