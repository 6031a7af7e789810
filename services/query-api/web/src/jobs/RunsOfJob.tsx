import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';

import { runsOfJobQuery } from '../api/queries';
import type { Status } from '../api/types';
import { ErrorNotice } from '../components/ErrorNotice';
import { JobStatus } from '../components/Verdict';
import { amount, count, time } from '../lib/format';

/** The runs of a job, the latest first; two of them are compared. */
export function RunsOfJob({ job }: { job: string }) {
  const query = useInfiniteQuery(runsOfJobQuery(job));
  const [chosen, setChosen] = useState<string[]>([]);
  const [total] = (query.data?.pages ?? []).map((page) => page.total);
  // Of two that were chosen the first goes where a third one comes.
  const choose = (app: string) =>
    setChosen((before) =>
      before.includes(app) ? before.filter((one) => one !== app) : [...before.slice(-1), app],
    );
  const [right, left] = (query.data?.pages ?? [])
    .flatMap((page) => page.items)
    .filter((run) => chosen.includes(run.app))
    .map((run) => run.app);
  return (
    <section aria-label="Runs">
      <h3>
        Runs <span className="chip-count">{count(total ?? 0)}</span>
      </h3>
      {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      <ul className="plain-rows">
        {query.data?.pages
          .flatMap((page) => page.items)
          .map((run) => (
            <li key={run.app}>
              <input
                type="checkbox"
                aria-label={`Compare ${run.app}`}
                checked={chosen.includes(run.app)}
                onChange={() => choose(run.app)}
              />{' '}
              <Link to="/apps/$app" params={{ app: run.app }}>
                {run.app}
              </Link>{' '}
              <span className="faint">{time(run.started_at)}</span>{' '}
              <JobStatus status={run.status as Status} />
              {run.content && (
                <span className="faint">
                  {' '}
                  read {amount(run.content.read)}, wrote {amount(run.content.written)}
                </span>
              )}
            </li>
          ))}
      </ul>
      {query.hasNextPage && (
        <button type="button" className="button" onClick={() => void query.fetchNextPage()}>
          Show more runs
        </button>
      )}
      {left !== undefined && right !== undefined ? (
        <p>
          <Link
            className="button"
            to="/jobs/compare"
            search={{ left, right, direction: 'backward' as const }}
          >
            Compare a row of both runs
          </Link>
        </p>
      ) : (
        (total ?? 0) > 1 && <p className="faint">Choose two runs to compare a row of them.</p>
      )}
    </section>
  );
}
