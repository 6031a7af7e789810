/** The calls of the query API, one function each. */

import { address, get, post, remove } from './client';
import type {
  AppDetail,
  AppPage,
  CellTrace,
  Completeness,
  DatasetPage,
  DatasetRunPage,
  DeadLetters,
  Diff,
  Direction,
  ExportFormat,
  FailedCalls,
  Graph,
  Influence,
  JobGraph,
  JobPage,
  Me,
  NamedArrays,
  Picture,
  LevelAnswer,
  NodeColumns,
  NodeItems,
  Progress,
  RowsAround,
  RunPage,
  RunsDiff,
  Spark,
  SuspectTasks,
  Suspects,
  Trace,
  TraceAnswer,
  TraceItems,
  TraceRequest,
  TripleSets,
  TripleTrace,
  ValuesOfCells,
  WatchableJob,
} from './types';

const of = (app: string) => `/applications/${encodeURIComponent(app)}`;
const ofTrace = (trace: string) => `/traces/${encodeURIComponent(trace)}`;

export interface AppFilter {
  search?: string;
  dataset?: string;
  call_site?: string;
  column?: string;
  since?: string;
  until?: string;
  status?: string;
  complete?: boolean;
}

export const me = (signal?: AbortSignal) => get<Me>('/me', {}, signal);

export const spark = (signal?: AbortSignal) => get<Spark>('/spark', {}, signal);

export const applications = (
  filter: AppFilter,
  limit: number,
  cursor: string | null,
  signal?: AbortSignal,
) => get<AppPage>('/applications', { ...filter, limit, cursor }, signal);

export const application = (app: string, signal?: AbortSignal) =>
  get<AppDetail>(of(app), {}, signal);

export const deleteApplication = (app: string) => remove(of(app));

export const deadLetters = (app: string, limit: number, signal?: AbortSignal) =>
  get<DeadLetters>('/dead-letters', { app, limit }, signal);

export const completeness = (app: string, signal?: AbortSignal) =>
  get<Completeness>(`${of(app)}/completeness`, {}, signal);

export const graph = (app: string, unfold: boolean, signal?: AbortSignal) =>
  get<Graph>(`${of(app)}/graph`, { unfold }, signal);

/** Where a graph of jobs and datasets starts. */
export type JobGraphStart = { app: string } | { job: string } | { namespace: string; name: string };

/** A server that has not read all runs yet takes so long to read more of them. */
const READ_S = 0.5;
/** The same before there is anything to see: it reads the runs of the job that the graph starts at first. */
const READ_FIRST_S = 0.1;

export const jobGraph = (
  start: JobGraphStart,
  side: 'both' | 'upstream' | 'downstream',
  limit: number,
  isFirst: boolean,
  signal?: AbortSignal,
) => {
  const read_s = isFirst ? READ_FIRST_S : READ_S;
  return get<JobGraph>('/jobs/graph', { ...start, side, limit, read_s }, signal);
};

export const jobs = (limit: number, cursor: string | null, signal?: AbortSignal) =>
  get<JobPage>('/jobs', { limit, cursor }, signal);

export const runsOfJob = (
  job: string,
  limit: number,
  cursor: string | null,
  signal?: AbortSignal,
) => get<RunPage>('/runs', { job, limit, cursor }, signal);

export const datasets = (
  search: string,
  limit: number,
  cursor: string | null,
  signal?: AbortSignal,
) => get<DatasetPage>('/datasets', { search, limit, cursor }, signal);

export const runsOfDataset = (
  namespace: string,
  name: string,
  limit: number,
  cursor: string | null,
  signal?: AbortSignal,
) => get<DatasetRunPage>('/datasets/runs', { namespace, name, limit, cursor }, signal);

/** A row, as people type it, in one run of a job. */
export interface RunPlace {
  app: string;
  place: string;
}

export const runsDiff = (
  direction: Direction,
  left: RunPlace,
  right: RunPlace,
  limit: number,
  signal?: AbortSignal,
) => {
  const places = ({ app, place }: RunPlace) => ({ app, places: [place] });
  const body = { direction, left: places(left), right: places(right), limit };
  return post<RunsDiff>('/answers/runs-diff', body, signal);
};

export const progress = (app: string, signal?: AbortSignal) =>
  get<Progress>(`${of(app)}/progress`, {}, signal);

export interface ItemFilter {
  search?: string;
  partition?: number;
}

export const nodeItems = (
  app: string,
  node: string,
  filter: ItemFilter,
  limit: number,
  cursor: string | null,
  signal?: AbortSignal,
) =>
  get<NodeItems>(
    `${of(app)}/nodes/${encodeURIComponent(node)}/items`,
    { ...filter, limit, cursor },
    signal,
  );

export const nodeColumns = (app: string, node: string, signal?: AbortSignal) =>
  get<NodeColumns>(`${of(app)}/nodes/${encodeURIComponent(node)}/columns`, {}, signal);

/** The first calls of functions that failed, of a node that holds the rows set aside for them. */
export const failedCalls = (app: string, node: string, limit: number, signal?: AbortSignal) =>
  get<FailedCalls>(`${of(app)}/nodes/${encodeURIComponent(node)}/failed-calls`, { limit }, signal);

export const startTrace = (app: string, request: TraceRequest, signal?: AbortSignal) =>
  post<Trace>(`${of(app)}/traces`, request, signal);

export const trace = (id: string, signal?: AbortSignal) => get<Trace>(ofTrace(id), {}, signal);

export const traceItems = (
  id: string,
  node: string,
  limit: number,
  cursor: string | null,
  signal?: AbortSignal,
) =>
  get<TraceItems>(
    `${ofTrace(id)}/nodes/${encodeURIComponent(node)}/items`,
    { limit, cursor },
    signal,
  );

export const traceExportUrl = (id: string, format: ExportFormat | 'ndjson') =>
  format === 'ndjson'
    ? address(`${ofTrace(id)}/items.ndjson`)
    : address(`${ofTrace(id)}/export`, { format });

export const countByLevel = (
  { app, direction, request }: Trace,
  places: string[],
  by: string,
  limit: number,
  signal?: AbortSignal,
) =>
  post<LevelAnswer>(
    '/answers',
    {
      direction,
      places,
      app,
      until: request.until === 'ends' ? null : request.until,
      steps: request.steps,
      by,
      limit,
    },
    signal,
  );

/** An answer through all jobs; `isShared`: it begins with every application that read the rows. */
export interface AllJobsAnswer {
  answer: TraceAnswer;
  isShared: boolean;
}

/**
 * The trace from some places, on through the jobs that wrote what was read (forward: read what was written).
 * `sharedPlaces`: places that other applications may have read, too. From there it begins with all of them.
 */
export async function traceAllJobs(
  { app, direction }: Trace,
  places: string[],
  sharedPlaces: string[] | null,
  limit: number,
  signal?: AbortSignal,
): Promise<AllJobsAnswer> {
  const question = { direction, all_jobs: true, limit };
  const from = (start: object) => post<TraceAnswer>('/answers', { ...question, ...start }, signal);
  if (sharedPlaces !== null) {
    const answer = await from({ places: sharedPlaces });
    const { apps, not_asked: missing } = answer;
    // An application of which the caller may see parts only is not in the answers about several.
    if (apps.includes(app) || missing.some((gap) => gap.app === app)) {
      return { answer, isShared: true };
    }
  }
  return { answer: await from({ places, app }), isShared: false };
}

export const rowsAround = (app: string, item: string, around: number, signal?: AbortSignal) =>
  get<RowsAround>(`${of(app)}/rows`, { address: item, around }, signal);

export const diff = (app: string, left: TraceRequest, right: TraceRequest, signal?: AbortSignal) =>
  post<Diff>(`${of(app)}/diff`, { left, right }, signal);

export interface SuspectsQuestion {
  /** Bad outputs, and good ones. */
  places: string[];
  good: string[];
  limit: number;
}

export const suspects = (app: string, question: SuspectsQuestion, signal?: AbortSignal) =>
  post<Suspects>(`${of(app)}/suspects`, question, signal);

/** The same of rows of DataFrames, which are computed for it. */
export const frameSuspects = async (
  app: string,
  question: SuspectsQuestion,
  signal?: AbortSignal,
): Promise<Suspects> => {
  const asked = { ...question, app, tasks: false };
  const found = await post<SuspectTasks>('/answers/suspects', asked, signal);
  const items = found.items.map(({ name, ...item }) => ({ ...item, label: name }));
  return { ...found, items, good: found.good.length };
};

/** What a row of a DataFrame would be without each row that it was made from, those first that change it most. */
export const influence = (app: string, place: string, limit: number, signal?: AbortSignal) =>
  post<Influence>('/answers/influence', { app, place, limit }, signal);

/** Suspect tasks: all flows of the application are read for them. */
export const suspectTasks = (app: string, question: SuspectsQuestion, signal?: AbortSignal) =>
  post<SuspectTasks>('/answers/suspects', { ...question, app, tasks: true }, signal);

/** Whether the records of a job can be watched now, and which of its operators. */
export const watchable = (app: string, signal?: AbortSignal) =>
  get<WatchableJob>(`${of(app)}/watch`, {}, signal);

const ofArray = (app: string, array: string) => `${of(app)}/arrays/${encodeURIComponent(array)}`;

export const arrays = (app: string, limit: number, cursor: string | null, signal?: AbortSignal) =>
  get<NamedArrays>(`${of(app)}/arrays`, { limit, cursor }, signal);

/** A question about cells of an array; `planes`: by id of an array what its picture shows. */
export interface CellQuestion {
  direction: Direction;
  array: string;
  index: string;
  choices: boolean;
  planes: Record<string, string>;
  side: number;
  limit: number;
}

export const traceCells = (app: string, question: CellQuestion, signal?: AbortSignal) =>
  post<CellTrace>(`${of(app)}/arrays/trace`, question, signal);

export const picture = (
  app: string,
  array: string,
  plane: string,
  side: number,
  signal?: AbortSignal,
) => get<Picture>(`${ofArray(app, array)}/picture`, { plane, side }, signal);

export const cellValues = (app: string, array: string, ranges: string, signal?: AbortSignal) =>
  get<ValuesOfCells>(`${ofArray(app, array)}/values`, { ranges }, signal);

export const tripleSets = (signal?: AbortSignal) => get<TripleSets>('/triples', undefined, signal);

export const tripleTrace = (
  data_set: string,
  item: string,
  direction: Direction,
  limit: number,
  signal?: AbortSignal,
) => get<TripleTrace>('/triples/trace', { data_set, item, direction, limit }, signal);

export const tripleExportUrl = (
  data_set: string,
  item: string,
  direction: Direction,
  format: string,
) => address('/triples/export', { data_set, item, direction, format });
