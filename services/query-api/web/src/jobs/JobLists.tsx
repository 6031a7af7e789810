import { useInfiniteQuery, type UseInfiniteQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { datasetsQuery, jobsQuery } from '../api/queries';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { SearchInput } from '../components/SearchInput';
import { useKeys } from '../components/useKeys';
import { count, counted, time } from '../lib/format';
import { TripleSets } from '../triples/TripleSets';
import { shownVersions } from './versions';

interface Props {
  words: string;
  onSearch: (words: string) => void;
}

/** All jobs and datasets: the graph starts at the one that is chosen. */
export function JobLists({ words, onSearch }: Props) {
  const jobs = useInfiniteQuery(jobsQuery());
  const datasets = useInfiniteQuery(datasetsQuery(words));
  useKeys(() => undefined);
  const [first] = datasets.data?.pages ?? [];
  return (
    <>
      <div className="page-head">
        <h1>Jobs and datasets</h1>
      </div>
      <section aria-label="Jobs">
        <h2>
          Jobs <span className="chip-count">{count(jobs.data?.pages[0]?.total ?? 0)}</span>
        </h2>
        <Listed query={jobs} what="jobs">
          {jobs.data?.pages
            .flatMap((page) => page.items)
            .map((job) => (
              <li key={job.name}>
                <Link to="/jobs" search={{ job: job.name }}>
                  {job.name}
                </Link>{' '}
                <span className="faint">
                  {counted(job.runs, 'run')}, the last {time(job.last_run.started_at)}
                </span>
              </li>
            ))}
        </Listed>
      </section>
      <section aria-label="Datasets">
        <h2>
          Datasets <span className="chip-count">{count(first?.total ?? 0)}</span>
        </h2>
        <div className="filters" role="search">
          <SearchInput
            label="Search datasets"
            placeholder="Part of a name ( / )"
            value={words}
            onChange={onSearch}
          />
        </div>
        {first !== undefined && first.runs < first.runs_total && (
          <p className="faint">
            Of the latest {count(first.runs)} of {count(first.runs_total)} runs.
          </p>
        )}
        <Listed query={datasets} what="datasets">
          {datasets.data?.pages
            .flatMap((page) => page.items)
            .map(({ namespace, name, writers, readers, last_write }) => (
              <li key={JSON.stringify([namespace, name])}>
                <Link to="/jobs" search={{ namespace, name }}>
                  {fullName(namespace, name)}
                </Link>{' '}
                <span className="faint">
                  written by {counted(writers.length, 'job')}, read by{' '}
                  {counted(readers.length, 'job')}
                  {last_write !== null &&
                    `, last written ${time(last_write.started_at)} ${shownVersions(last_write.use.table_versions)}`}
                </span>
              </li>
            ))}
        </Listed>
      </section>
      <TripleSets />
    </>
  );
}

interface ListedProps {
  query: UseInfiniteQueryResult;
  what: string;
  children: ReactNode;
}

/** A list that grows by a click. */
function Listed({ query, what, children }: ListedProps) {
  const none = Array.isArray(children) && children.length === 0;
  return (
    <>
      {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Loading what={what} />}
      {none ? <Empty title={`No ${what}.`} /> : <ul className="plain-rows">{children}</ul>}
      {query.hasNextPage && (
        <p className="more">
          <button
            type="button"
            className="button"
            disabled={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            Show more {what}
          </button>
        </p>
      )}
    </>
  );
}

/** The name of a dataset after its namespace. */
const fullName = (namespace: string, name: string) =>
  namespace === 'file' ? `file:${name}` : `${namespace}/${name.replace(/^\//, '')}`;
