import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useMemo, useState, type ReactNode } from 'react';

import { applicationQuery, graphQuery, suspectsQuery, suspectTasksQuery } from '../api/queries';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { SparkWait } from '../components/SparkWait';
import { useTitle } from '../components/useTitle';
import { displayGraph } from '../graph/display';
import { GraphView } from '../graph/GraphView';
import { counted } from '../lib/format';
import { ranksOf } from '../trace/ranks';
import { Notes } from '../trace/TraceNotes';
import { ApplicationHead } from './ApplicationHead';
import { ChosenRows } from './ChosenRows';
import { SuspectRows } from './SuspectRows';
import { SuspectTasks } from './SuspectTasks';

const route = getRouteApi('/apps/$app/suspects');
const FEW = 50;
const MANY = 500;

/** What bad outputs have in common, and good ones have not: rows of sources, and tasks, ranked. */
export function SuspectsPage(): ReactNode {
  const { app } = route.useParams();
  const { place = [], good = [], q = '', of } = route.useSearch();
  const navigate = useNavigate();
  const [limit, setLimit] = useState(FEW);
  useTitle('Suspects');
  const detail = useQuery(applicationQuery(app));
  const enabled = place.length > 0;
  const areFrames = of === 'frames';
  const question = { places: place, good, limit };
  const query = useQuery({ ...suspectsQuery(app, question, areFrames), enabled });
  // DataFrames leave no lineage of tasks.
  const hasTasks = enabled && !areFrames;
  const tasks = useQuery({ ...suspectTasksQuery(app, place, good), enabled: hasTasks });
  const folded = useQuery({ ...graphQuery(app, false), enabled });
  const graph = useMemo(
    () => folded.data && displayGraph(folded.data, undefined, []),
    [folded.data],
  );
  const found = query.data;
  const ranks = useMemo(
    () => graph && ranksOf(found?.items ?? [], tasks.data?.tasks ?? [], graph.standsFor),
    [graph, found, tasks.data],
  );
  const onChoose = (bad: string[], right: string[]) =>
    void navigate({
      to: '/apps/$app/suspects',
      params: { app },
      search: { place: bad, good: right.length > 0 ? right : undefined, q: q || undefined, of },
      replace: true,
    });
  return (
    <main className="page" id="main">
      {detail.data && <ApplicationHead app={detail.data} />}
      <div className="page-head">
        <h2>Suspects</h2>
        {found && (
          <span className="faint">
            {counted(found.suspected, 'suspect')} among {counted(found.total, 'row')} behind{' '}
            {counted(found.outputs, 'bad output')}
          </span>
        )}
      </div>
      <p className="faint">
        What went into most of the bad outputs and into few of the good ones comes first. Say of
        each row that you chose whether it is bad or good.
      </p>
      {!enabled && (
        <Empty title="No outputs were chosen.">
          <p>Select rows of an output, wrong ones and right ones, then choose “Suspects”.</p>
        </Empty>
      )}
      {enabled && <ChosenRows bad={place} good={good} onChoose={onChoose} />}
      {graph && ranks && (
        <section className="graph suspect-graph" aria-label="Suspects on the graph">
          <GraphView
            graph={graph}
            selected={null}
            traced={null}
            traceId={null}
            ranks={ranks}
            onSelect={(node) =>
              void navigate({ to: '/apps/$app', params: { app }, search: { node } })
            }
          />
        </section>
      )}
      {enabled && (
        <>
          <h3>Rows of sources</h3>
          {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
          {query.isPending &&
            (areFrames ? <SparkWait what="the suspects" /> : <Loading what="suspects" />)}
        </>
      )}
      {found !== undefined && (
        <>
          <Notes notes={found.warnings} />
          {!found.exact && <Notes notes={found.reasons.map((why) => `Not exact: ${why}`)} />}
          <SuspectRows app={app} found={found} search={q} areFrames={areFrames} />
          {found.suspected > found.items.length && limit < MANY && (
            <p className="more">
              <button type="button" className="button" onClick={() => setLimit(MANY)}>
                Show more
              </button>
            </p>
          )}
        </>
      )}
      {hasTasks && (
        <>
          <h3>Tasks on the way</h3>
          {tasks.error && <ErrorNotice error={tasks.error} onRetry={() => void tasks.refetch()} />}
          {tasks.isPending && <Loading what="tasks" />}
          {tasks.data && <SuspectTasks found={tasks.data} />}
        </>
      )}
    </main>
  );
}
