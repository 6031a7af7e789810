/** What is told of a watch, event by event. */

import type {
  SourcesFound,
  TaskReads,
  TaskTime,
  WatchedRecord,
  WatchEnd,
  WatchEvent,
} from '../api/watch';
import type { WatchAsked } from '../api/types';
import { count, counted } from '../lib/format';

/** Of one watch; the server ends a watch after as many. */
export const SHOWN_MAX = 1000;
/** Of the records of a task that are named as the slowest. */
const SLOWEST_MAX = 5;

export interface ToldRecord extends WatchedRecord {
  /** The stream that told of it: records are numbered in each. */
  stream: number;
  found: SourcesFound | null;
}

export interface ToldTask extends TaskTime {
  stream: number;
  /** How it stands beside the others, once the watch is over. */
  reason: string | null;
  reads: string[];
}

export interface Told {
  stream: number;
  tasks: ToldTask[];
  records: ToldRecord[];
  notes: string[];
  /** Counted by the streams that have ended. */
  violations: number;
  tested: number;
  seesAll: boolean;
  isOver: boolean;
}

export const NOTHING: Told = {
  stream: 0,
  tasks: [],
  records: [],
  notes: [],
  violations: 0,
  tested: 0,
  seesAll: true,
  isOver: false,
};

const GAP =
  'The time of a stream was up, and the next one began: records that passed meanwhile were not seen.';

/** What is told after an event. */
export function withEvent(told: Told, event: WatchEvent): Told {
  switch (event.event) {
    case 'record':
      if (told.records.length >= SHOWN_MAX * (event.task === undefined ? 1 : SLOWEST_MAX))
        return told;
      return {
        ...told,
        records: [...told.records, { ...event, stream: told.stream, found: null }],
      };
    case 'sources':
      return { ...told, records: told.records.map((one) => withSources(one, event, told.stream)) };
    case 'task':
      if (told.tasks.length >= SHOWN_MAX) return told;
      return {
        ...told,
        tasks: [...told.tasks, { ...event, stream: told.stream, reason: null, reads: [] }],
      };
    case 'reads':
      return { ...told, tasks: told.tasks.map((one) => withReads(one, event, told.stream)) };
    case 'note':
      return withNote(told, event.note);
    case 'end':
      return withEnd(told, event);
    case 'problem':
      return told;
  }
}

const withSources = (record: ToldRecord, found: SourcesFound, stream: number) =>
  record.record === found.record && record.stream === stream ? { ...record, found } : record;

const withReads = (task: ToldTask, { operator, partition, reads }: TaskReads, stream: number) =>
  task.operator === operator && task.partition === partition && task.stream === stream
    ? { ...task, reads }
    : task;

const withNote = (told: Told, note: string): Told =>
  told.notes.includes(note) ? told : { ...told, notes: [...told.notes, note].slice(-SHOWN_MAX) };

function withEnd(told: Told, end: WatchEnd): Told {
  const goesOn = end.time_up && (told.tasks.length || told.records.length) < SHOWN_MAX;
  const reasons = new Map(end.tasks.map((one) => [one.task, one.deviation?.reason ?? null]));
  const tasks = told.tasks.map((one) =>
    one.stream === told.stream ? { ...one, reason: reasons.get(one.task) ?? null } : one,
  );
  const ended = {
    ...told,
    tasks,
    stream: told.stream + 1,
    violations: told.violations + end.violations,
    tested: told.tested + end.tested,
    seesAll: told.seesAll && end.sees_all && !end.time_up,
    isOver: !goesOn,
  };
  return end.time_up ? withNote(ended, GAP) : ended;
}

/** Whether a watch says that something is wrong. */
export const isAlert = ({ must, slower_than }: WatchAsked) => Boolean(must) || Boolean(slower_than);

/** What is watched for, in words. */
export function wordsOf({ condition, must, slower_than, latency }: WatchAsked): string {
  if (latency) return 'time of its tasks';
  if (must) return `each must fulfil ${must}`;
  if (slower_than) return `slower than ${slower_than}`;
  return condition ?? '';
}

/** Tasks, those of most time first, with the slowest records of each. */
export const rankedTasks = ({ tasks, records }: Told) =>
  [...tasks]
    .sort((a, b) => b.seconds - a.seconds)
    .map((task) => ({
      task,
      slowest: records.filter((one) => one.stream === task.stream && one.task === task.task),
    }));

/** How it stands with a watch. */
export function stateOf(told: Told, asked: WatchAsked): string {
  if (asked.latency) {
    const tasks = `${counted(told.tasks.length, 'task')} ended`;
    return told.isOver
      ? `${tasks}; it is not watched any more.`
      : `${tasks} so far; it is watched…`;
  }
  const records = counted(told.records.length, 'record');
  if (!told.isOver) {
    if (asked.must) return `${records} broke the condition so far; it is watched…`;
    return `${records} so far; it is watched…`;
  }
  if (!asked.must) return `${records}; it is not watched any more.`;
  const unseen = told.seesAll ? '' : ', others were not seen';
  return `${counted(told.violations, 'record')} broke the condition; ${count(told.tested)} were tested${unseen}.`;
}
