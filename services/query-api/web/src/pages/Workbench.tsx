import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useCallback, useMemo } from 'react';

import { graphQuery, traceQuery } from '../api/queries';
import type { AppDetail } from '../api/types';
import { Divider } from '../components/Divider';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { useKeys } from '../components/useKeys';
import { displayGraph, loopOf } from '../graph/display';
import { GraphView } from '../graph/GraphView';
import { tracedGraph } from '../graph/traced';
import { NO_TRACE, type ApplicationSearch } from '../url/searches';
import { SidePanel } from './SidePanel';

const LIVE_MS = 6000;
const NONE: string[] = [];
const route = getRouteApi('/apps/$app');

/** The graph of an application and the panel beside it; the address holds what is looked at. */
export function Workbench({ detail }: { detail: AppDetail }) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/apps/$app' });
  const go = useCallback(
    (change: Partial<ApplicationSearch>, replace = false) =>
      void navigate({
        search: (before: ApplicationSearch) => ({ ...before, ...change }),
        replace,
        // The heading of what is shown comes into view by itself.
        resetScroll: false,
      }),
    [navigate],
  );

  const opened = search.unfold ?? NONE;
  const live = detail.final ? false : LIVE_MS;
  const folded = useQuery({ ...graphQuery(detail.app, false), refetchInterval: live });
  const unfolded = useQuery({ ...graphQuery(detail.app, true), enabled: opened.length > 0 });
  const trace = useQuery({
    ...traceQuery(search.trace ?? ''),
    enabled: search.trace !== undefined,
  });
  const traceData = search.trace === undefined ? undefined : trace.data;
  const graph = useMemo(
    () => folded.data && displayGraph(folded.data, unfolded.data, opened),
    [folded.data, unfolded.data, opened],
  );
  const traced = useMemo(
    () => (graph && traceData ? tracedGraph(graph, traceData) : null),
    [graph, traceData],
  );

  const at = search.at ?? traceData?.groups[0]?.node ?? null;
  const looked = (search.trace === undefined ? search.node : at) ?? null;
  const tracing = search.trace !== undefined;
  const takesPart = useCallback(
    (node: string) =>
      traceData === undefined ||
      [traceData.groups, traceData.passed, traceData.start].some((nodes) =>
        nodes.some((one) => one.node === node),
      ),
    [traceData],
  );
  const onSelect = useCallback(
    (node: string) => {
      if (!tracing) {
        go({ node, partition: undefined, row: undefined });
        return;
      }
      // A fold stands for many nodes; those that take part are of interest.
      const members = graph?.nodes.find((one) => one.node === node)?.members ?? [node];
      go({ at: members.find(takesPart) ?? node, row: undefined });
    },
    [go, tracing, graph, takesPart],
  );
  const onUnfold = useCallback(
    (node: string) => {
      const unfold = [...opened, node];
      go(tracing ? { unfold } : { unfold, node });
    },
    [go, opened, tracing],
  );
  const onFold = (fold: string) => {
    const loop = folded.data ? loopOf(folded.data, fold) : new Set([fold]);
    go({ unfold: opened.filter((one) => !loop.has(one)) });
  };

  useKeys(() => {
    if (search.row !== undefined) go({ row: undefined });
    else if (tracing) go(NO_TRACE);
    else if (search.node !== undefined) go({ node: undefined, tab: undefined, q: undefined });
  });

  return (
    <div className="workbench">
      <section className="graph" aria-label="Graph of the program">
        {folded.error && <ErrorNotice error={folded.error} onRetry={() => void folded.refetch()} />}
        {folded.isPending && <Loading what="the graph" />}
        {graph && (
          <GraphView
            graph={graph}
            selected={looked === null ? null : (graph.standsFor.get(looked) ?? null)}
            traced={traced}
            traceId={traced === null ? null : (search.trace ?? null)}
            onSelect={onSelect}
            onUnfold={onUnfold}
          />
        )}
      </section>
      <Divider />
      <aside className="panel" aria-label="Details">
        {graph && (
          <SidePanel detail={detail} graph={graph} trace={trace} at={at} go={go} onFold={onFold} />
        )}
      </aside>
    </div>
  );
}
