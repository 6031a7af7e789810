/** What the query API answers (version /v1), in its own names. */

export type Status = 'running' | 'ok' | 'failed' | 'abandoned';
export type Direction = 'backward' | 'forward';

export interface Me {
  name: string;
  role: 'reader' | 'admin';
  /** Whether the caller may see what rows say. */
  rows: boolean;
  /** Whether the caller may delete applications. */
  delete: boolean;
  auth: 'none' | 'token' | 'oidc';
}

/** The page's client at an issuer. */
export interface OidcClient {
  issuer: string;
  client_id: string;
  scopes: string;
}

export interface SignInWays {
  /** Null: by a token alone. */
  oidc: OidcClient | null;
}

export interface App {
  app: string;
  name: string;
  status: Status;
  /** Unix seconds. */
  started_at: number;
  ended_at: number | null;
  flows: number;
  associations: number;
  complete: boolean;
  /** Nothing is on its way any more. */
  final: boolean;
  exact: boolean;
  /** Why it is not complete. */
  reasons: string[];
}

export interface NodeRef {
  node: string;
  label: string;
  what: string;
  path: string | null;
}

/** Why rows of an output can't be traced back, though its lineage is there. */
export interface Refusal {
  node: string;
  what: string;
  operator: string;
  reason: string;
}

export interface AppDetail extends App {
  /** Rows of all outputs can be traced; null or absent: the server does not know. */
  answerable?: boolean | null;
  refusals?: Refusal[];
  nodes: number;
  sources: NodeRef[];
  sinks: NodeRef[];
  unknown_parts: string[];
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
  [key: string]: unknown;
}

export interface GraphNode {
  node: string;
  label: string;
  kind: string;
  op: string;
  name: string;
  description: string;
  call_site: string;
  path: string | null;
  exact: boolean;
  reason: string;
  partitions: number | null;
  blocks: number;
  flows: number;
  associations: number;
  /** The nodes that a loop made by this call; one alone is the node itself. */
  members: string[];
  /** Nodes of one stage share it. */
  stage: string;
  has_items: boolean;
}

export interface GraphLink {
  src: string;
  dest: string;
}

export interface Graph {
  app: string;
  nodes: GraphNode[];
  links: GraphLink[];
}

/** What binds a text to the row that the job saw; `now`: nothing, it may be another row's. */
export interface Bound {
  binding?: 'checksum' | 'state' | 'now' | null;
}

export interface Item extends Bound {
  address: string;
  location: string | null;
  text: string | null;
}

export interface ItemPage {
  items: Item[];
  next: string | null;
}

export interface NodeItems extends NodeRef, ItemPage {
  count: number;
  /** Items looked at for this page. */
  scanned: number;
  /** Of those that were not found: rows that are too long to be searched to their end. */
  cut?: number;
}

export interface TraceItems extends ItemPage {
  node: string;
  label: string;
  count: number;
}

/** A column of a DataFrame and the text of its value; null is NULL. */
export interface ColumnValue {
  column: string;
  value: string | null;
}

/** What rows of a DataFrame's node may be asked for by. */
export interface NodeColumns {
  node: string;
  label: string;
  columns: { name: string; type: string }[];
  /** The server has a Spark that traces them. */
  traced: boolean;
}

export type TraceStart =
  | { places: string[] }
  | { node: string; contains: string }
  | { node: string; values: ColumnValue[] }
  | { regions: { space: string; ranges: string }[] };

export interface TraceRequest {
  direction: Direction;
  start: TraceStart;
  /** `ends`: sources or sinks; else a node. */
  until: string;
  steps: number | null;
}

export interface GroupCount extends NodeRef {
  count: number;
  changed: boolean;
  gone: boolean;
  /** The first ones. */
  items: Item[];
}

export interface PassedNode {
  node: string;
  label: string;
  count: number;
}

export interface Trace {
  trace: string;
  app: string;
  direction: Direction;
  request: TraceRequest;
  exact: boolean;
  complete: boolean;
  changed: boolean;
  reasons: string[];
  warnings: string[];
  start: GroupCount[];
  groups: GroupCount[];
  /** By a query over a DataFrame's recipe: there are no steps, and no items on the way. */
  computed: boolean;
  /** The trace of an RDD's records that goes on, by such a query, through DataFrames: all the way alone. */
  through: boolean;
  passed: PassedNode[];
  count: number;
}

export interface RawRow extends Bound {
  number: number;
  location: string;
  text: string | null;
  asked: boolean;
  address: string | null;
}

export interface RowsAround {
  path: string;
  unit: string;
  changed: boolean;
  rows: RawRow[];
}

export interface DiffSide {
  trace: string;
  count: number;
  /** What was asked for. */
  start: GroupCount[];
}

export interface DiffGroup {
  node: string;
  label: string;
  path: string | null;
  only_left: { count: number; items: Item[] };
  only_right: { count: number; items: Item[] };
  both: number;
}

export interface Diff {
  left: DiffSide;
  right: DiffSide;
  groups: DiffGroup[];
  warnings: string[];
}

export interface Suspect extends Item {
  node: string;
  /** How many of the outputs it went into. */
  outputs: number;
}

export interface Suspects {
  outputs: number;
  items: Suspect[];
  total: number;
  warnings: string[];
}

export interface Progress {
  status: Status;
  final: boolean;
  capture: { tasks: number; tasks_expected: number };
  link: { blocks_expected: number; blocks_received: number; blocks_linked: number };
  write: { blocks: number; flows: number };
  updated_at: number;
}

/** A record that the pipeline could not use. */
export interface DeadLetter {
  /** As `lineage dlq` names it. */
  letter: string;
  /** Topic, partition and offset where it was read. */
  place: string;
  app: string | null;
  service: string;
  reason: string;
  /** Unix seconds. */
  at: number;
  /** Bytes. */
  size: number;
  cut: boolean;
}

export interface DeadLetters {
  items: DeadLetter[];
  total: number;
}

export interface Page<T> {
  items: T[];
  next: string | null;
  total: number;
}

export const EXPORT_FORMATS = ['csv', 'arrow', 'parquet', 'prov', 'graphml', 'mermaid'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];
