import type { UseQueryResult } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';

import type { AppDetail, Direction, Trace } from '../api/types';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { SparkWait } from '../components/SparkWait';
import { PanelHead } from '../components/PanelHead';
import type { DisplayGraph, DisplayNode } from '../graph/display';
import { tokensOf } from '../lib/highlight';
import { NodePanel } from '../node/NodePanel';
import { RawRows } from '../node/RawRows';
import { canGoOn, inSteps, ofMatches, ofPlaces, ofValues } from '../trace/requests';
import { TracePanel } from '../trace/TracePanel';
import { useStartTrace, type StartTrace } from '../trace/useStartTrace';
import { NO_TRACE, type ApplicationSearch } from '../url/searches';
import { Overview } from './Overview';
import { useFocusOnChange } from './useFocusOnChange';

const route = getRouteApi('/apps/$app');
const NONE: string[] = [];
const NO_WORDS: ReadonlySet<string> = new Set();

type Go = (change: Partial<ApplicationSearch>, replace?: boolean) => void;

interface Props {
  detail: AppDetail;
  graph: DisplayGraph;
  trace: UseQueryResult<Trace>;
  at: string | null;
  go: Go;
  onFold: (fold: string) => void;
}

/** What is looked at: a trace, a node, or else where to begin; below it a row in its file. */
export function SidePanel(props: Props) {
  const { detail, go } = props;
  const search = route.useSearch();
  const start = useStartTrace(detail.app, (trace) =>
    go({ trace: trace.trace, at: undefined, row: undefined }),
  );
  const trace = search.trace === undefined ? undefined : props.trace.data;
  const shared = useMemo(
    () =>
      trace === undefined
        ? NO_WORDS
        : tokensOf(trace.start.flatMap((group) => group.items.map((item) => item.text))),
    [trace],
  );
  const shown = useFocusOnChange(`${search.trace ?? ''} ${search.node ?? ''}`);
  return (
    <div className="panel-content" ref={shown}>
      {start.isPending && (
        <div className="panel-busy">
          <SparkWait what="the trace" onCancel={start.cancel} />
        </div>
      )}
      {start.error && <ErrorNotice error={start.error} onClose={start.reset} />}
      <Content {...props} search={search} start={start} shared={shared} />
      {search.row !== undefined && (
        <RawRows
          key={search.row}
          app={detail.app}
          node={nodeOf(props.graph, search.row)}
          item={search.row}
          search={search.q ?? ''}
          shared={shared}
          onClose={() => go({ row: undefined })}
        />
      )}
    </div>
  );
}

interface ContentProps extends Props {
  search: ApplicationSearch;
  start: StartTrace;
  shared: ReadonlySet<string>;
}

function Content(props: ContentProps) {
  const { detail, graph, search, trace, go } = props;
  if (search.trace !== undefined) {
    if (trace.error) {
      return (
        <>
          <PanelHead title="Trace" closing="Leave trace" onClose={() => go(NO_TRACE)} />
          <ErrorNotice error={trace.error} onRetry={() => void trace.refetch()} />
        </>
      );
    }
    return trace.data === undefined ? (
      <Loading what="the trace" />
    ) : (
      <TraceContent {...props} found={trace.data} />
    );
  }
  const node = drawn(graph, search.node);
  if (search.node === undefined || node === undefined) {
    return <Overview detail={detail} onSelect={(id) => go({ node: id })} />;
  }
  return <NodeContent {...props} id={search.node} node={node} />;
}

function NodeContent(props: ContentProps & { id: string; node: DisplayNode }) {
  const { detail, search, start, id, node, go } = props;
  return (
    <NodePanel
      app={detail.app}
      id={id}
      node={node}
      openedFrom={node.openedFrom}
      tab={search.tab ?? 'rows'}
      search={search.q ?? ''}
      partition={search.partition}
      selected={search.sel ?? NONE}
      opened={search.row ?? null}
      onTab={(tab) => go({ tab }, true)}
      onSearch={(words) => go({ q: words || undefined }, true)}
      onPartition={(partition) => go({ partition })}
      onSelected={(sel) => go({ sel }, true)}
      onTrace={(direction: Direction, places) => start.mutate(ofPlaces(direction, places))}
      onTraceMatches={(direction) => start.mutate(ofMatches(direction, id, search.q ?? ''))}
      onTraceValues={(direction, values) => start.mutate(ofValues(direction, id, values))}
      busy={start.isPending}
      onShowRow={(row) => go({ row })}
      onTurn={(turn) => go({ node: turn, partition: undefined })}
      onFold={props.onFold}
      onClose={() => go({ node: undefined, tab: undefined, q: undefined, row: undefined })}
    />
  );
}

function TraceContent(props: ContentProps & { found: Trace }) {
  const { graph, search, start, shared, found, at, go } = props;
  // What was reached is given by nodes of the program, links are drawn between folds.
  const reached = useMemo(
    () => ({
      ...found,
      groups: found.groups.map((group) => ({
        ...group,
        node: graph.standsFor.get(group.node) ?? group.node,
      })),
    }),
    [found, graph.standsFor],
  );
  return (
    <TracePanel
      trace={found}
      at={at}
      node={drawn(graph, at ?? undefined)}
      search={search.q ?? ''}
      shared={shared}
      opened={search.row ?? null}
      canGoOn={canGoOn(reached, graph.links)}
      busy={start.isPending}
      allJobs={search.jobs === 'all'}
      isSource={(of) => isSource(drawn(graph, of))}
      onAllJobs={(on) => go({ jobs: on ? 'all' : undefined })}
      onSteps={(steps) => start.mutate(inSteps(found.request, steps))}
      onAt={(node) => go({ at: node, row: undefined })}
      onTrace={(direction, places) =>
        start.mutate({
          ...ofPlaces(direction, places),
          // Who goes step by step goes on so.
          steps: found.request.steps === null ? null : 1,
        })
      }
      onShowRow={(row) => go({ row })}
      onRowsOf={(node) => go({ ...NO_TRACE, node })}
      onClose={() =>
        go({
          ...NO_TRACE,
          node: search.node ?? found.start[0]?.node ?? undefined,
        })
      }
    />
  );
}

const isSource = (node: DisplayNode | undefined) =>
  node?.kind === 'source' || node?.kind === 'frame-source';

function drawn(graph: DisplayGraph, node: string | undefined): DisplayNode | undefined {
  const id = node === undefined ? undefined : graph.standsFor.get(node);
  return graph.nodes.find((one) => one.node === id);
}

/** The node of an address, which begins with its name. */
function nodeOf(graph: DisplayGraph, address: string): DisplayNode | undefined {
  const name = address.slice(0, address.lastIndexOf('#', address.lastIndexOf('#') - 1));
  return drawn(graph, name) ?? graph.nodes.find(({ label }) => label === name);
}
