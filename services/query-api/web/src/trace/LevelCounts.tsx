import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { levelQuery } from '../api/queries';
import type { Trace } from '../api/types';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { count, counted } from '../lib/format';

/** The levels above rows, on the side of the data and on the side of the work. */
export const LEVELS = [
  'split',
  'file',
  'dataset',
  'task',
  'stage',
  'node',
  'application',
  'job',
] as const;
export type Level = (typeof LEVELS)[number];
export const CONTAINERS_SHOWN = 200;

/** A choice beside a trace: how many of its rows lie in each file, dataset, task... */
export function LevelCounts({ trace }: { trace: Trace }) {
  const [level, setLevel] = useState<Level | null>(null);
  const { start } = trace.request;
  // Only places can be sent again as they are.
  if (!('places' in start) || trace.count === 0) return null;
  return (
    <section className="levels" aria-label="Rows by level">
      <label>
        Count rows by{' '}
        <select
          className="input"
          value={level ?? ''}
          onChange={(event) => setLevel(LEVELS.find((one) => one === event.target.value) ?? null)}
        >
          <option value="">(list the rows)</option>
          {LEVELS.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      {level !== null && <Counts trace={trace} places={start.places} level={level} />}
    </section>
  );
}

function Counts({ trace, places, level }: { trace: Trace; places: string[]; level: Level }) {
  const query = useQuery(levelQuery(trace, places, level, CONTAINERS_SHOWN));
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading what={`rows by ${level}`} />;
  const { containers, containers_total: total, outside, exact, complete, reasons } = query.data;
  if (total === 0 && outside.length === 0) return <Empty title="It has no rows." />;
  return (
    <>
      <table className="items level-counts">
        <caption>
          {counted(total, level)}
          {!exact && ', or fewer'}
          {!complete && '; some may be missing'}
        </caption>
        <tbody>
          {containers.map(({ name, app, rows }) => (
            <tr key={`${app} ${name}`}>
              <th scope="row">{name}</th>
              <td>{counted(rows, 'row')}</td>
            </tr>
          ))}
          {outside.map(({ node, app, rows }) => (
            <tr key={`outside ${app} ${node}`} className="faint">
              <th scope="row">
                in no {level}: {node}
              </th>
              <td>{counted(rows, 'row')}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > containers.length && (
        <p className="faint">
          The first {count(containers.length)} of {count(total)}, those of most rows.
        </p>
      )}
      {reasons.map((reason) => (
        <p key={reason} className="faint">
          {reason}
        </p>
      ))}
    </>
  );
}
