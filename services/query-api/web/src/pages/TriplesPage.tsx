import { useQuery } from '@tanstack/react-query';
import { Link, getRouteApi, useNavigate } from '@tanstack/react-router';
import { useCallback, useMemo, useState, type ReactNode } from 'react';

import { tripleExportUrl } from '../api/lineage';
import { TRIPLES_DRAWN, tripleSetsQuery, tripleTraceQuery } from '../api/queries';
import { EXPORT_FORMATS, type Direction, type TripleTrace } from '../api/types';
import { Divider } from '../components/Divider';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { useTitle } from '../components/useTitle';
import { GraphView } from '../graph/GraphView';
import { count, counted } from '../lib/format';
import { ExportMenu } from '../trace/ExportMenu';
import { ItemPanel } from '../triples/ItemPanel';
import { drawnItems, itemOf, keyOf, trailOf, tripleGraph } from '../triples/tripleGraph';

const route = getRouteApi('/triples');

/** What an item of triples was derived from, or what was derived from it, drawn. */
export function TriplesPage(): ReactNode {
  const { data_set: dataSet, item, direction } = route.useSearch();
  useTitle(item ?? 'Triples');
  return (
    <main className="app-page" id="main">
      <div className="app-head">
        <nav aria-label="Where you are" className="crumbs">
          <Link to="/jobs">Jobs and datasets</Link>
          <span aria-hidden>/</span>
        </nav>
        <h1>Triples</h1>
        <Question />
      </div>
      {dataSet !== undefined && item !== undefined && (
        <Traced
          key={JSON.stringify([dataSet, item, direction])}
          {...{ dataSet, item, direction }}
        />
      )}
    </main>
  );
}

/** Asks for an item of a data set. */
function Question() {
  const { data_set: dataSet, item, direction } = route.useSearch();
  const navigate = useNavigate({ from: '/triples' });
  const sets = useQuery(tripleSetsQuery());
  if (sets.error) return <ErrorNotice error={sets.error} onRetry={() => void sets.refetch()} />;
  if (sets.data === undefined) return <Loading what="data sets" />;
  if (sets.data.items.length === 0) return <Empty title="There are no data sets of triples." />;
  return (
    <form
      className="filters"
      key={JSON.stringify([dataSet, item, direction])}
      onSubmit={(event) => {
        event.preventDefault();
        const typed = new FormData(event.currentTarget);
        const text = (name: string) => {
          const value = typed.get(name);
          return typeof value === 'string' && value !== '' ? value : undefined;
        };
        void navigate({
          search: {
            data_set: text('data_set'),
            item: text('item'),
            direction: text('direction') === 'forward' ? 'forward' : 'backward',
          },
        });
      }}
    >
      <select className="input" name="data_set" aria-label="Data set" defaultValue={dataSet}>
        {sets.data.items.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <input
        className="input"
        name="item"
        aria-label="Item"
        placeholder="An item"
        defaultValue={item}
        required
      />
      <select className="input" name="direction" aria-label="Direction" defaultValue={direction}>
        <option value="backward">was derived from</option>
        <option value="forward">went into</option>
      </select>
      <button type="submit" className="button">
        Trace
      </button>
    </form>
  );
}

interface Asked {
  dataSet: string;
  item: string;
  direction: Direction;
}

function Traced({ dataSet, item, direction }: Asked) {
  const { data: trace, error, refetch } = useQuery(tripleTraceQuery(dataSet, item, direction));
  const [failed, setFailed] = useState<Error | null>(null);
  if (error) return <ErrorNotice error={error} onRetry={() => void refetch()} />;
  if (trace === undefined) return <Loading what="the trace" />;
  return (
    <>
      <div className="app-head">
        <span className="faint app-facts" role="status">
          {factsOf(trace)}
        </span>
        <ExportMenu
          formats={EXPORT_FORMATS}
          url={(format) => tripleExportUrl(dataSet, item, direction, format)}
          name={`${dataSet}-${direction}`}
          onError={setFailed}
        />
      </div>
      {failed && <ErrorNotice error={failed} onRetry={() => setFailed(null)} />}
      {trace.count > trace.triples.length ? (
        <Empty title={`A trace of more than ${count(TRIPLES_DRAWN)} triples is not drawn.`}>
          <p>Export it, or ask for an item nearer to its end.</p>
        </Empty>
      ) : (
        <Drawn trace={trace} />
      )}
    </>
  );
}

function Drawn({ trace }: { trace: TripleTrace }) {
  const [at, setAt] = useState(trace.item);
  const [grown, setGrown] = useState<string[]>([]);
  const trail = useMemo(() => trailOf(trace), [trace]);
  const drawn = useMemo(() => drawnItems(trace.item, trail, grown), [trace, trail, grown]);
  const graph = useMemo(() => tripleGraph(trace.item, trail, drawn), [trace, trail, drawn]);
  const onSelect = useCallback((key: string) => {
    const chosen = itemOf(key);
    if (chosen !== null) setAt(chosen);
  }, []);
  const onGrow = useCallback((key: string) => {
    const from = itemOf(key);
    if (from !== null) setGrown((before) => [...before, from]);
  }, []);
  const select = useCallback(
    (item: string) => {
      setAt(item);
      if (!drawn.has(item)) setGrown((before) => [...before, item]);
    },
    [drawn],
  );
  return (
    <div className="workbench">
      <section className="graph" aria-label="Graph of items">
        <GraphView
          graph={graph}
          selected={keyOf(at)}
          traced={null}
          traceId={null}
          onSelect={onSelect}
          onGrow={onGrow}
        />
      </section>
      <Divider />
      <aside className="panel" aria-label="Details">
        <ItemPanel trace={trace} trail={trail} item={at} onSelect={select} />
      </aside>
    </div>
  );
}

function factsOf({ direction, items_count: items, count: triples }: TripleTrace): string {
  const side = direction === 'backward' ? 'from' : 'into';
  return `${side} ${counted(items, 'item')}, by ${counted(triples, 'triple')}`;
}
