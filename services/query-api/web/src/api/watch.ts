import { address, send } from './client';
import { eventsOf } from './events';
import type { Bound, WatchAsked } from './types';

export interface WatchedItem extends Bound {
  address: string;
  location: string | null;
  text: string | null;
}

export interface WatchedRecord {
  event: 'record';
  record: number;
  operator: string;
  partition: number;
  text: string | null;
  /** How long its function took with it, where that was asked for. */
  seconds?: number;
  /** That may have been for records that the function got before. */
  may_buffer?: boolean;
  /** It is one of the slowest records of this task. */
  task?: number;
}

/** How long the function of an operator took with the records of one run of a task. */
export interface TaskTime {
  event: 'task';
  task: number;
  operator: string;
  partition: number;
  records: number;
  seconds: number;
  /** With all of its records. */
  is_whole: boolean;
}

/** What a task of a DataFrame read: parts of files. */
export interface TaskReads {
  event: 'reads';
  operator: string;
  partition: number;
  reads: string[];
}

export interface SourcesFound {
  event: 'sources';
  record: number;
  sources: { node: string; name: string; count: number; items: WatchedItem[] }[];
  exact: boolean;
  reasons: string[];
  /** What to trace for them: they are computed on demand. */
  place?: string;
}

export interface WatchEnd {
  event: 'end';
  time_up: boolean;
  violations: number;
  tested: number;
  sees_all: boolean;
  /** The tasks, and how the time of each stands beside the others. */
  tasks: { task: number; deviation: { reason: string; tests: string[] } | null }[];
}

/** What the server tells of a watch: as `lineage watch --json`. */
export type WatchEvent =
  | WatchedRecord
  | SourcesFound
  | TaskTime
  | TaskReads
  | WatchEnd
  | { event: 'note'; note: string }
  | { event: 'problem' };

/** The events of a watch, as they happen, until it ends; it ends with `signal`, too. */
export async function* watch(
  app: string,
  asked: WatchAsked,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent> {
  const response = await send(address(`/applications/${encodeURIComponent(app)}/watch`), {
    method: 'POST',
    headers: { Accept: 'text/event-stream', 'Content-Type': 'application/json' },
    body: JSON.stringify(asked),
    signal,
  });
  yield* eventsOf<WatchEvent>(response);
}
