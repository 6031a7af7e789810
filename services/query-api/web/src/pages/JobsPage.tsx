import { keepPreviousData, useQueries } from '@tanstack/react-query';
import { Link, getRouteApi, useNavigate } from '@tanstack/react-router';
import { useCallback, useMemo, type ReactNode } from 'react';

import type { JobGraphStart } from '../api/lineage';
import { jobGraphQuery } from '../api/queries';
import type { JobGraph } from '../api/types';
import { Divider } from '../components/Divider';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { useKeys } from '../components/useKeys';
import { useTitle } from '../components/useTitle';
import type { GrowSide } from '../graph/GraphContext';
import { GraphView } from '../graph/GraphView';
import { JobGraphPanel } from '../jobs/JobGraphPanel';
import { JobLists } from '../jobs/JobLists';
import { GROWN_NODES, drawingOf, growth, keyOf, openedSides } from '../jobs/jobGraph';
import { count } from '../lib/format';
import type { JobsSearch } from '../url/searches';

const NONE: string[] = [];
const route = getRouteApi('/jobs');

/** Which job writes what which other reads, from one of them on. */
export function JobsPage(): ReactNode {
  const search = route.useSearch();
  useTitle('Jobs and datasets');
  const start = startIn(search);
  if (start === null) return <Unstarted words={search.q ?? ''} />;
  return <Started start={start} search={search} />;
}

function Unstarted({ words }: { words: string }) {
  const navigate = useNavigate({ from: '/jobs' });
  return (
    <main className="page" id="main">
      <JobLists
        words={words}
        onSearch={(q) => void navigate({ search: { q: q || undefined }, replace: true })}
      />
    </main>
  );
}

function Started({ start, search }: { start: JobGraphStart; search: JobsSearch }) {
  const navigate = useNavigate({ from: '/jobs' });
  const go = useCallback(
    (change: (before: JobsSearch) => Partial<JobsSearch>) =>
      void navigate({
        search: (before: JobsSearch) => ({ ...before, ...change(before) }),
        resetScroll: false,
      }),
    [navigate],
  );
  const opened = openedSides(search.grown ?? NONE);
  const { answers, error, pending, retry } = useQueries({
    queries: [
      jobGraphQuery(start, 'both', 1 + 2 * GROWN_NODES),
      ...opened.map((one) => ({
        ...jobGraphQuery(one.start, one.side, one.limit),
        placeholderData: keepPreviousData,
      })),
    ],
    combine: (results) => ({
      answers: results.flatMap(({ data }) => (data === undefined ? [] : [data])),
      error: results.find((one) => one.error !== null)?.error ?? null,
      pending: results.some((one) => one.isFetching),
      retry: () => results.forEach((one) => void (one.error && one.refetch())),
    }),
  });
  const drawing = useMemo(() => drawingOf(answers), [answers]);
  const [first] = answers;
  const origin = first?.nodes[0];
  const at = search.at ?? (origin === undefined ? null : keyOf(origin));
  const onSelect = useCallback((key: string | null) => go(() => ({ at: key ?? undefined })), [go]);
  const onGrow = useCallback(
    (key: string, side: GrowSide) =>
      go(({ grown }) => ({ at: key, grown: [...(grown ?? NONE), growth(side, key)] })),
    [go],
  );
  useKeys(() => {
    if (search.at !== undefined) onSelect(null);
  });
  return (
    <main className="app-page" id="main">
      <div className="app-head">
        <nav aria-label="Where you are" className="crumbs">
          <Link to="/jobs">Jobs and datasets</Link>
          <span aria-hidden>/</span>
        </nav>
        <h1>Jobs and datasets</h1>
        <span className="faint app-facts" role="status">
          {first === undefined ? '' : facts(answers, pending)}
        </span>
      </div>
      {error && <ErrorNotice error={error} onRetry={retry} />}
      <div className="workbench">
        <section className="graph" aria-label="Graph of jobs and datasets">
          {error === null && drawing.graph.nodes.length === 0 && <Loading what="the graph" />}
          {drawing.graph.nodes.length > 0 && (
            <GraphView
              graph={drawing.graph}
              selected={at}
              traced={null}
              traceId={null}
              onSelect={onSelect}
              onGrow={onGrow}
            />
          )}
        </section>
        <Divider />
        <aside className="panel" aria-label="Details">
          <JobGraphPanel
            drawing={drawing}
            at={at}
            chosen={search.at ?? null}
            onSelect={onSelect}
            onGrow={onGrow}
          />
        </aside>
      </div>
    </main>
  );
}

function startIn({ app, job, namespace, name }: JobsSearch): JobGraphStart | null {
  if (app !== undefined) return { app };
  if (job !== undefined) return { job };
  return namespace !== undefined && name !== undefined ? { namespace, name } : null;
}

/** Of how many runs the graph is, and what it can't show. */
function facts(answers: readonly JobGraph[], pending: boolean): string {
  const [least] = [...answers].sort((one, other) => one.runs - other.runs);
  if (least === undefined) return '';
  const { runs, runs_total: total, runs_withheld: withheld } = least;
  const parts =
    runs < total
      ? [`${count(runs)} of ${count(total)} runs have been read, more may appear`]
      : [`of ${count(total)} runs`];
  if (withheld > 0) parts.push(`${count(withheld)} do not say here what they read and wrote`);
  return `${parts.join(' · ')}${pending ? ' …' : ''}`;
}
