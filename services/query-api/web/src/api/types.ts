/** What the query API answers (version /v1), by the page's names. `schema.ts` is made of the API's own schemas. */
import type {
  ApplicationDetails,
  ApplicationModel,
  ApplicationPage,
  ArrayModel,
  ArrayPage,
  BackwardAnswer,
  CellTraceModel,
  CellsModel,
  CellValues,
  DeadLetterList,
  DeadLetterModel,
  DiffModel,
  FailedCallList,
  FailedCallModel,
  ForwardAnswer,
  GraphModel,
  GroupModel,
  InfluenceModel,
  ItemModel,
  ItemPage as NodeItemPage,
  JobGraphModel,
  MarksModel,
  OutputColumns,
  Passed,
  PictureModel,
  ProgressModel,
  RefusalModel,
  RowModel,
  RowsModel,
  RunDifferenceModel,
  SignIn,
  RankedInputs,
  SparkModel,
  StreamProgressModel,
  SuspectsModel,
  TraceModel,
  TracePage,
  TraceRequest as AnyTraceRequest,
  TripleDataSets,
  TripleTraceModel,
  WatchModel,
} from './schema';

export type {
  AnswerGroup,
  ColumnValue,
  DatasetPage,
  DatasetRunPage,
  DiffGroup,
  DiffSide,
  GraphLink,
  GraphNode,
  JobGraphNode,
  JobPage,
  Me,
  NodeRef,
  OidcClient,
  Run,
  RunPage,
  WatchableJob,
  WatchableOperator,
} from './schema';

import type { ColumnValue } from './schema';

export type Status = ApplicationModel['status'];
export type Direction = AnyTraceRequest['direction'];
export type SignInWays = SignIn;
export type Spark = SparkModel;
export type App = ApplicationModel;
export type AppPage = ApplicationPage;
export type AppDetail = ApplicationDetails;
export type Refusal = RefusalModel;
export type StreamProgress = StreamProgressModel;
export type WatchAsked = Pick<WatchModel, 'node'> & Partial<WatchModel>;
export type Graph = GraphModel;
export type Item = ItemModel;
export type Bound = Pick<ItemModel, 'binding'>;
export type NodeItems = NodeItemPage;
export type TraceItems = TracePage;
export type NodeColumns = OutputColumns;
export type FailedCall = FailedCallModel;
export type FailedCalls = FailedCallList;
export type GroupCount = GroupModel;
export type PassedNode = Passed;
export type RawRow = RowModel;
export type RowsAround = RowsModel;

/** An answer at a level above rows, whichever way it was traced. */
export type LevelAnswer = Pick<
  BackwardAnswer,
  'containers' | 'containers_total' | 'outside' | 'exact' | 'complete' | 'reasons'
>;

/** An answer of rows, whichever way it was traced. */
export type TraceAnswer = BackwardAnswer | ForwardAnswer;

export type Diff = DiffModel;
export type RunsDiff = RunDifferenceModel;
export type RunsDiffGroup = RunsDiff['groups'][number];
export type Influence = InfluenceModel;
export type Suspects = SuspectsModel;
export type SuspectTasks = RankedInputs;
export type JobGraph = JobGraphModel;
export type NamedArray = ArrayModel;
export type NamedArrays = ArrayPage;
export type CellTrace = CellTraceModel;
export type FoundCells = CellsModel;
export type ValuesOfCells = CellValues;
export type Marks = MarksModel;
export type Picture = PictureModel;
export type Progress = ProgressModel;
export type DeadLetter = DeadLetterModel;
export type DeadLetters = DeadLetterList;
export type TripleSets = TripleDataSets;
export type TripleTrace = TripleTraceModel;

/** Where the page begins traces: in one of the ways that the API knows. */
export type TraceStart =
  | { places: string[] }
  | { node: string; contains: string }
  | { node: string; values: ColumnValue[] }
  | { regions: { space: string; ranges: string }[] };

export interface TraceRequest extends Omit<AnyTraceRequest, 'start' | 'steps' | 'as_now'> {
  start: TraceStart;
  steps: number | null;
}

export interface Trace extends Omit<TraceModel, 'request'> {
  request: TraceRequest;
}

/** The verdict; the service may tell more than what is named here. */
export interface Completeness {
  app: string;
  complete: boolean;
  answerable?: boolean | null;
  refusals?: Refusal[];
  final?: boolean;
  tasks?: Record<string, number>;
  blocks?: Record<string, number>;
  reasons?: string[];
  unknown?: string[];
  superset?: Record<string, string[]>;
  set_aside?: Record<string, number>;
  repaired?: Record<string, number>;
  streams?: StreamProgress[];
  [key: string]: unknown;
}

export interface ItemPage {
  items: Item[];
  next: string | null;
}

export interface Page<T> {
  items: T[];
  next: string | null;
  total: number;
}

export const EXPORT_FORMATS = ['csv', 'arrow', 'parquet', 'prov', 'graphml', 'mermaid'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];
