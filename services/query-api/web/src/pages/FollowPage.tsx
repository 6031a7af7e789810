import { Link, getRouteApi } from '@tanstack/react-router';
import { useEffect, useState, type ReactNode } from 'react';

import { follow, type FollowedRow, type FollowEvent } from '../api/follow';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { useTitle } from '../components/useTitle';
import { count, counted } from '../lib/format';

const route = getRouteApi('/follow');
const SHOWN_MAX = 1000;
const ID_LETTERS = 8;

/** The rows that streaming queries make of a row, as their batches are committed. */
export function FollowPage(): ReactNode {
  const { place = '', where } = route.useSearch();
  const navigate = route.useNavigate();
  useTitle('Follow a row');
  return (
    <main className="page" id="main">
      <div className="page-head">
        <h1>Follow a row</h1>
        <Link className="page-aside" to="/">
          All applications
        </Link>
      </div>
      <p className="faint">
        Each row that streaming queries make of a row of a file, or of a record of Kafka, as soon as
        its batch is committed, until nothing more can come. With a condition: of all rows of a
        folder or topic that fulfil it.
      </p>
      <form
        className="follow-form"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          void navigate({ search: { place: typed(form, 'place'), where: typed(form, 'where') } });
        }}
      >
        <input
          key={place}
          className="input"
          name="place"
          aria-label="The row"
          placeholder="/data/in/monday.csv:3 or orders[3]@1742"
          defaultValue={place}
        />
        <input
          key={`where ${where ?? ''}`}
          className="input"
          name="where"
          aria-label="The condition"
          placeholder="user = 42, of /data/in or kafka:orders"
          defaultValue={where}
        />
        <button type="submit" className="button">
          Follow
        </button>
      </form>
      {place !== '' && <Followed key={`${place} ${where ?? ''}`} place={place} where={where} />}
    </main>
  );
}

/** What stands in a field; undefined: nothing. */
function typed(form: FormData, name: string): string | undefined {
  const value = form.get(name);
  return typeof value === 'string' ? value.trim() || undefined : undefined;
}

interface Told {
  rows: FollowedRow[];
  /** Of all rows, also of those that are not shown. */
  rowCount: number;
  notes: string[];
  end: Extract<FollowEvent, { event: 'end' }> | null;
}

const NOTHING: Told = { rows: [], rowCount: 0, notes: [], end: null };

function Followed({ place, where }: { place: string; where: string | undefined }) {
  const [told, setTold] = useState(NOTHING);
  const [error, setError] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      try {
        for (let isOver = false; !isOver && !stop.signal.aborted;) {
          // Where the time of a stream is up, the next one begins from the beginning.
          let current = NOTHING;
          isOver = true;
          for await (const event of follow(place, where, stop.signal)) {
            current = withEvent(current, event);
            if (event.event === 'end' && event.time_up) isOver = false;
            else setTold(current);
          }
        }
      } catch (problem) {
        if (!stop.signal.aborted)
          setError(problem instanceof Error ? problem : new Error(String(problem)));
      }
    })();
    return () => stop.abort();
  }, [place, where, attempt]);
  const again = () => {
    setError(null);
    setTold(NOTHING);
    setAttempt(attempt + 1);
  };
  return (
    <>
      <p role="status">{error === null ? stateOf(told) : 'It is not followed any more.'}</p>
      {error !== null && <ErrorNotice error={error} onRetry={again} />}
      {told.notes.length > 0 && (
        <ul className="follow-notes">
          {told.notes.map((note, at) => (
            <li key={at}>{note}</li>
          ))}
        </ul>
      )}
      {told.rows.length > 0 && <RowsTable told={told} />}
      {told.end !== null && told.rows.length === 0 && <Empty title="No row was made of it." />}
    </>
  );
}

function RowsTable({ told }: { told: Told }) {
  return (
    <>
      <div className="table-frame">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Place</th>
              <th scope="col">Text</th>
              <th scope="col">Batch</th>
            </tr>
          </thead>
          <tbody>
            {told.rows.map((row, at) => (
              <tr key={at}>
                <td className="start-place">{row.place ?? 'in no file'}</td>
                <td className="suspect-text">
                  {row.text ?? 'not known'}
                  {!row.exact && (
                    <span className="reason">not exact: {row.reasons.join('; ')}</span>
                  )}
                </td>
                <td>
                  {count(row.batch)}
                  <span className="reason">
                    query {row.query.slice(0, ID_LETTERS)}
                    {!row.committed && ', not committed: it is run again'}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {told.rowCount > told.rows.length && (
        <p className="more faint">
          {count(told.rows.length)} of {count(told.rowCount)}
        </p>
      )}
    </>
  );
}

/** What is told after an event. */
export function withEvent(told: Told, event: FollowEvent): Told {
  switch (event.event) {
    case 'row':
      return told.rows.length < SHOWN_MAX ? { ...told, rows: [...told.rows, event] } : told;
    case 'made':
      return { ...told, rowCount: told.rowCount + event.rows };
    case 'end':
      return { ...told, end: event };
    case 'problem':
      return told;
    default:
      return { ...told, notes: [...told.notes, noteOf(event)].slice(-SHOWN_MAX) };
  }
}

type Noted = Exclude<FollowEvent, { event: 'row' | 'made' | 'end' | 'problem' }>;

function noteOf(event: Noted): string {
  if (event.event === 'note') return event.text;
  const query = `query ${event.query.slice(0, ID_LETTERS)}`;
  switch (event.event) {
    case 'read':
      return `Batch ${event.batch} of ${query} has read it.`;
    case 'late':
      return `Late in batch ${event.batch} of ${query}: ${counted(event.count, 'window')} given before.`;
    case 'done':
      return `Nothing more comes of ${query}: ${event.reason}.`;
    case 'gap':
      return `Not known of ${query}: ${event.reason}.`;
    case 'waiting':
      return `Waiting for ${query}: ${event.reason}.`;
  }
}

function stateOf({ rowCount, end }: Told): string {
  const rows = counted(rowCount, 'row');
  if (end === null) return `${rows} so far; it is followed…`;
  if (!end.complete) return `${rows}; not all is known.`;
  if (end.done) return `${rows}; nothing more comes of it.`;
  return `${rows}; more may come when a query is started again: ${Object.values(end.open).join('; ')}.`;
}
