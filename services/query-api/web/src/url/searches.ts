/** What the address of each page holds beside its path. */

import type { Direction } from '../api/types';
import { oneOf, text, texts, type Params } from './params';

export const SEARCHED = ['name', 'dataset', 'call_site', 'column'] as const;

export interface ApplicationsSearch {
  q?: string;
  /** What the text is part of; the name or id if it is not given. */
  by?: (typeof SEARCHED)[number];
  /** Days, such as 2026-11-26, on which and between which applications began. */
  since?: string;
  until?: string;
  status?: 'running' | 'ok' | 'failed' | 'abandoned' | 'damaged';
  complete?: 'yes' | 'no';
}

export function applicationsSearch(params: Params): ApplicationsSearch {
  return {
    q: text(params.q),
    by: oneOf(params.by, SEARCHED),
    since: day(params.since),
    until: day(params.until),
    status: oneOf(params.status, ['running', 'ok', 'failed', 'abandoned', 'damaged']),
    complete: oneOf(params.complete, ['yes', 'no']),
  };
}

function day(value: unknown): string | undefined {
  const one = text(value);
  return one !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(one) && !isNaN(Date.parse(one))
    ? one
    : undefined;
}

export interface ApplicationSearch {
  /** The node that is looked at. */
  node?: string;
  tab?: 'rows' | 'about';
  /** Text that rows are searched for; it stays marked in the rows of a trace. */
  q?: string;
  partition?: string;
  /** Loops that are shown turn by turn, by their first nodes. */
  unfold?: string[];
  /** A trace (which may be one of some steps), and the node whose items of it are listed. */
  trace?: string;
  at?: string;
  /** Whether the trace is shown through the jobs before (forward: after) this one, too. */
  jobs?: 'all';
  /** The row that is shown in its file. */
  row?: string;
  /** Rows that were selected, by address. */
  sel?: string[];
}

/** What leaves a trace. */
export const NO_TRACE = {
  trace: undefined,
  at: undefined,
  jobs: undefined,
  row: undefined,
} satisfies ApplicationSearch;

export function applicationSearch(params: Params): ApplicationSearch {
  return {
    node: text(params.node),
    tab: oneOf(params.tab, ['rows', 'about']),
    q: text(params.q),
    partition: text(params.partition),
    unfold: texts(params.unfold),
    trace: text(params.trace),
    at: text(params.at),
    jobs: oneOf(params.jobs, ['all']),
    row: text(params.row),
    sel: texts(params.sel),
  };
}

export interface CellsSearch {
  /** The array whose cells are traced, by its id. */
  array?: string;
  /** The index of these cells. */
  cells?: string;
  /** Where values chose among cells: all that took part. */
  choices?: 'all';
}

export function cellsSearch(params: Params): CellsSearch {
  return {
    array: text(params.array),
    cells: text(params.cells),
    choices: oneOf(params.choices, ['all']),
  };
}

export interface CompareSearch {
  left?: string;
  right?: string;
  direction: Direction;
}

export function compareSearch(params: Params): CompareSearch {
  return {
    left: text(params.left),
    right: text(params.right),
    direction: oneOf(params.direction, ['backward', 'forward']) ?? 'backward',
  };
}

export interface CompareRunsSearch {
  /** Two runs of a job. */
  left?: string;
  right?: string;
  /** A row, as people type it; of the right run another one where it stands elsewhere there. */
  place?: string;
  other?: string;
  direction: Direction;
}

export function compareRunsSearch(params: Params): CompareRunsSearch {
  return { ...compareSearch(params), place: text(params.place), other: text(params.other) };
}

export interface DeadLettersSearch {
  /** Just those of one application. */
  app?: string;
}

export function deadLettersSearch(params: Params): DeadLettersSearch {
  return { app: text(params.app) };
}

export interface FollowSearch {
  /** The row that is followed, as people type it. */
  place?: string;
  /** A condition on the rows of a source that are followed. */
  where?: string;
}

export function followSearch(params: Params): FollowSearch {
  return { place: text(params.place), where: text(params.where) };
}

export interface JobsSearch {
  /** Where the graph starts: the job of an application, a job, or a dataset. */
  app?: string;
  job?: string;
  namespace?: string;
  name?: string;
  /** Where it has no start: text that the listed datasets have in their names. */
  q?: string;
  /** The node that is looked at. */
  at?: string;
  /** Sides of nodes that were opened, in their order; one that is there twice shows twice as many. */
  grown?: string[];
}

export function jobsSearch(params: Params): JobsSearch {
  const grown = (Array.isArray(params.grown) ? (params.grown as unknown[]) : [params.grown]).filter(
    (one): one is string => typeof one === 'string' && one !== '',
  );
  return {
    app: text(params.app),
    job: text(params.job),
    namespace: text(params.namespace),
    name: text(params.name),
    q: text(params.q),
    at: text(params.at),
    grown: grown.length > 0 ? grown : undefined,
  };
}

export interface SuspectsSearch {
  /** Bad outputs, and good ones. */
  place?: string[];
  good?: string[];
  q?: string;
  /** What the outputs are rows of; records of RDDs if it is not given. */
  of?: 'frames';
}

export function suspectsSearch(params: Params): SuspectsSearch {
  return {
    place: texts(params.place),
    good: texts(params.good),
    q: text(params.q),
    of: oneOf(params.of, ['frames']),
  };
}

export interface TriplesSearch {
  data_set?: string;
  item?: string;
  direction: Direction;
}

export function triplesSearch(params: Params): TriplesSearch {
  return {
    data_set: text(params.data_set),
    item: text(params.item),
    direction: oneOf(params.direction, ['backward', 'forward']) ?? 'backward',
  };
}
