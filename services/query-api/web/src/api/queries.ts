/** What pages ask for, with its keys in the cache and how long it stands. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import * as lineage from './lineage';
import type { AppFilter, ItemFilter, JobGraphStart, RunPlace } from './lineage';
import type { Direction, NamedArray, Trace, TraceRequest } from './types';

export const APPS_PER_PAGE = 50;
export const ITEMS_PER_PAGE = 100;
const JOBS_PER_PAGE = 50;
const RUNS_PER_PAGE = 10;
const ARRAYS_PER_PAGE = 200;
/** Pixels of pictures of arrays each way, and runs of cells that are listed. */
const PIXELS = 460;
const RUNS_LISTED = 50;
const TASKS_LISTED = 20;
const POLL_MS = 2000;
const RUNS_POLL_MS = 500;
const SPARK_POLL_MS = 1000;
export const APPLICATIONS_POLL_MS = 5000;
/** A longer list is asked for page by page: it stays as it is. */
const POLLED_PAGES = 4;

export const meQuery = () =>
  queryOptions({
    queryKey: ['me'],
    queryFn: ({ signal }) => lineage.me(signal),
    staleTime: Infinity,
  });

/** For as long as somebody waits for Spark. */
export const sparkQuery = () =>
  queryOptions({
    queryKey: ['spark'],
    queryFn: ({ signal }) => lineage.spark(signal),
    gcTime: 0,
    refetchInterval: SPARK_POLL_MS,
  });

export const applicationsQuery = (filter: AppFilter) =>
  infiniteQueryOptions({
    queryKey: ['applications', filter],
    queryFn: ({ pageParam, signal }) =>
      lineage.applications(filter, APPS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    // New applications appear by themselves; none is asked for behind another window.
    refetchInterval: ({ state }) =>
      (state.data === undefined || state.data.pages.length <= POLLED_PAGES) && !searchesAll(filter)
        ? APPLICATIONS_POLL_MS
        : false,
  });

/** Whether the service looks into each application: that is not repeated by itself. */
const searchesAll = ({ dataset, call_site, column }: AppFilter) =>
  [dataset, call_site, column].some((one) => one !== undefined);

export const applicationQuery = (app: string) =>
  queryOptions({
    queryKey: ['application', app],
    queryFn: ({ signal }) => lineage.application(app, signal),
    refetchInterval: ({ state }) => (state.data && !state.data.final ? POLL_MS : false),
  });

export const completenessQuery = (app: string) =>
  queryOptions({
    queryKey: ['application', app, 'completeness'],
    queryFn: ({ signal }) => lineage.completeness(app, signal),
  });

export const deadLettersQuery = (app: string, limit: number) =>
  queryOptions({
    queryKey: ['dead letters', app, limit],
    queryFn: ({ signal }) => lineage.deadLetters(app, limit, signal),
  });

export const graphQuery = (app: string, unfold: boolean) =>
  queryOptions({
    queryKey: ['application', app, 'graph', unfold],
    queryFn: ({ signal }) => lineage.graph(app, unfold, signal),
    staleTime: 60_000,
  });

export const jobGraphQuery = (
  start: JobGraphStart,
  side: 'both' | 'upstream' | 'downstream',
  limit: number,
) =>
  queryOptions({
    queryKey: ['jobs', start, side, limit],
    queryFn: ({ client, queryKey, signal }) =>
      lineage.jobGraph(start, side, limit, client.getQueryData(queryKey) === undefined, signal),
    staleTime: 60_000,
    // The server reads runs by and by.
    refetchInterval: ({ state }) =>
      state.data !== undefined && state.data.runs < state.data.runs_total ? RUNS_POLL_MS : false,
  });

export const jobsQuery = () =>
  infiniteQueryOptions({
    queryKey: ['jobs', 'list'],
    queryFn: ({ pageParam, signal }) => lineage.jobs(JOBS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    staleTime: 60_000,
  });

export const datasetsQuery = (search: string) =>
  infiniteQueryOptions({
    queryKey: ['datasets', search],
    queryFn: ({ pageParam, signal }) => lineage.datasets(search, JOBS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    staleTime: 60_000,
  });

export const runsOfJobQuery = (job: string) =>
  infiniteQueryOptions({
    queryKey: ['jobs', 'runs', job],
    queryFn: ({ pageParam, signal }) => lineage.runsOfJob(job, RUNS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    staleTime: 60_000,
  });

export const runsOfDatasetQuery = (namespace: string, name: string) =>
  infiniteQueryOptions({
    queryKey: ['datasets', 'runs', namespace, name],
    queryFn: ({ pageParam, signal }) =>
      lineage.runsOfDataset(namespace, name, RUNS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    staleTime: 60_000,
  });

export const runsDiffQuery = (direction: Direction, left: RunPlace, right: RunPlace) =>
  queryOptions({
    queryKey: ['runs', 'diff', direction, left, right],
    queryFn: ({ signal }) => lineage.runsDiff(direction, left, right, ITEMS_PER_PAGE, signal),
    staleTime: 60_000,
  });

export const progressQuery = (app: string) =>
  queryOptions({
    queryKey: ['application', app, 'progress'],
    queryFn: ({ signal }) => lineage.progress(app, signal),
    refetchInterval: ({ state }) => (state.data?.final ? false : POLL_MS),
  });

/** While the page of a job's watches is looked at: the program makes more operators. */
export const watchableQuery = (app: string) =>
  queryOptions({
    queryKey: ['application', app, 'watchable'],
    queryFn: ({ signal }) => lineage.watchable(app, signal),
    refetchInterval: ({ state }) => (state.data?.refusal === null ? POLL_MS : false),
  });

export const nodeItemsQuery = (app: string, node: string, filter: ItemFilter) =>
  infiniteQueryOptions({
    queryKey: ['application', app, 'items', node, filter],
    queryFn: ({ pageParam, signal }) =>
      lineage.nodeItems(app, node, filter, ITEMS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    staleTime: 60_000,
  });

/** The first line of the one file that a node reads, as the job read it; null where the service does not give it. */
export const headerQuery = (app: string, node: string, path: string) =>
  queryOptions({
    queryKey: ['application', app, 'header', node, path],
    queryFn: async ({ signal }) => {
      const { items } = await lineage.nodeItems(app, node, { partition: 0 }, 1, null, signal);
      const [first] = items;
      // Of several files each may have columns of its own, and a file that changed may have others now.
      return first?.location === `${path}:1` && first.binding !== 'now' ? first.text : null;
    },
    staleTime: 60_000,
  });

export const nodeColumnsQuery = (app: string, node: string) =>
  queryOptions({
    queryKey: ['application', app, 'columns', node],
    queryFn: ({ signal }) => lineage.nodeColumns(app, node, signal),
    staleTime: 60_000,
  });

export const failedCallsQuery = (app: string, node: string, limit: number) =>
  queryOptions({
    queryKey: ['application', app, 'failed calls', node, limit],
    queryFn: ({ signal }) => lineage.failedCalls(app, node, limit, signal),
    staleTime: 60_000,
  });

export const traceQuery = (id: string) =>
  queryOptions({
    queryKey: ['trace', id],
    queryFn: ({ signal }) => lineage.trace(id, signal),
    staleTime: Infinity,
  });

/** How many rows of a trace from some places lie in each container of a level. */
export const levelQuery = (trace: Trace, places: string[], level: string, limit: number) =>
  queryOptions({
    queryKey: ['trace', trace.trace, 'level', level, limit],
    queryFn: ({ signal }) => lineage.countByLevel(trace, places, level, limit, signal),
    staleTime: 60_000,
  });

/** A trace from some places through all jobs, with so many rows of each node. */
export const allJobsQuery = (
  trace: Trace,
  places: string[],
  sharedPlaces: string[] | null,
  limit: number,
) =>
  queryOptions({
    queryKey: ['trace', trace.trace, 'all jobs', sharedPlaces, limit],
    queryFn: ({ signal }) => lineage.traceAllJobs(trace, places, sharedPlaces, limit, signal),
    staleTime: 60_000,
  });

export const traceItemsQuery = (id: string, node: string) =>
  infiniteQueryOptions({
    queryKey: ['trace', id, 'items', node],
    queryFn: ({ pageParam, signal }) =>
      lineage.traceItems(id, node, ITEMS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    staleTime: Infinity,
  });

export const rowsAroundQuery = (app: string, item: string, around: number) =>
  queryOptions({
    queryKey: ['application', app, 'rows', item, around],
    queryFn: ({ signal }) => lineage.rowsAround(app, item, around, signal),
    staleTime: 60_000,
  });

export const diffQuery = (app: string, left: TraceRequest, right: TraceRequest) =>
  queryOptions({
    queryKey: ['application', app, 'diff', left, right],
    queryFn: ({ signal }) => lineage.diff(app, left, right, signal),
    staleTime: 60_000,
  });

export const suspectsQuery = (
  app: string,
  question: lineage.SuspectsQuestion,
  areFrames: boolean,
) =>
  queryOptions({
    queryKey: ['application', app, 'suspects', question, areFrames],
    queryFn: ({ signal }) =>
      (areFrames ? lineage.frameSuspects : lineage.suspects)(app, question, signal),
    staleTime: 60_000,
  });

export const influenceQuery = (app: string, place: string, limit: number) =>
  queryOptions({
    queryKey: ['application', app, 'influence', place, limit],
    queryFn: ({ signal }) => lineage.influence(app, place, limit, signal),
    staleTime: 60_000,
  });

/** Apart from the rows: these are there, too, where tasks cost more than a server allows, or would show what is hidden. */
export const suspectTasksQuery = (app: string, places: string[], good: string[]) => {
  const question = { places, good, limit: TASKS_LISTED };
  return queryOptions({
    queryKey: ['application', app, 'suspect tasks', question],
    queryFn: ({ signal }) => lineage.suspectTasks(app, question, signal),
    staleTime: 60_000,
  });
};

export const arraysQuery = (app: string) =>
  infiniteQueryOptions({
    queryKey: ['application', app, 'arrays'],
    queryFn: ({ pageParam, signal }) => lineage.arrays(app, ARRAYS_PER_PAGE, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    staleTime: 60_000,
  });

/** The cells that cells of an array were made from, or went into; without cells just how the array looks. */
export const cellTraceQuery = (
  app: string,
  array: NamedArray,
  cells: string | undefined,
  choices: boolean,
  planes: Record<string, string>,
) => {
  const question = {
    direction: array.is_source ? ('forward' as const) : ('backward' as const),
    array: array.id,
    index: cells ?? anyCell(array),
    choices,
    planes,
    side: PIXELS,
    limit: RUNS_LISTED,
  };
  return queryOptions({
    queryKey: ['application', app, 'cells', question],
    queryFn: ({ signal }) => lineage.traceCells(app, question, signal),
    staleTime: 60_000,
  });
};

/** The first cell of an array, or none where it has none. */
const anyCell = ({ shape }: NamedArray) =>
  shape.map((length) => (length > 0 ? '0' : ':')).join(',');

export const pictureQuery = (app: string, array: string, plane: string, enabled: boolean) =>
  queryOptions({
    queryKey: ['application', app, 'picture', array, plane],
    queryFn: ({ signal }) => lineage.picture(app, array, plane, PIXELS, signal),
    staleTime: 60_000,
    enabled,
  });

export const cellValuesQuery = (app: string, array: string, ranges: string, enabled: boolean) =>
  queryOptions({
    queryKey: ['application', app, 'values', array, ranges],
    queryFn: ({ signal }) => lineage.cellValues(app, array, ranges, signal),
    staleTime: 60_000,
    enabled,
  });

/** Traces with more triples are not drawn. */
export const TRIPLES_DRAWN = 20_000;

export const tripleSetsQuery = () =>
  queryOptions({
    queryKey: ['triples'],
    queryFn: ({ signal }) => lineage.tripleSets(signal),
    staleTime: 60_000,
  });

export const tripleTraceQuery = (dataSet: string, item: string, direction: Direction) =>
  queryOptions({
    queryKey: ['triples', dataSet, item, direction],
    queryFn: ({ signal }) => lineage.tripleTrace(dataSet, item, direction, TRIPLES_DRAWN, signal),
    staleTime: 60_000,
  });
