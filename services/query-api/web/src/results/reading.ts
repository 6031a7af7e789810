/** Results of `lineage replay`, `step` and `sift`, from the files that `--json` writes. What a file says is text, and nothing else. */

import { counted } from '../lib/format';
import { ExactNumber, parseExact, shownText, type Json } from './exactJson';

export interface ResultRow {
  place: string | null;
  text: string | null;
}

export interface ReplayedRow {
  place: string | null;
  before: string;
  /** What came out in its place: none, one, or several of which each may be it. */
  after: string[];
  state: string;
}

export interface ReplayResult {
  kind: 'replay';
  app: string;
  rows: ReplayedRow[];
  /** Rows that the job did not give. */
  added: string[];
  witnesses: number;
  leftOut: number;
  readsAll: boolean;
  /** What became of the outputs of the jobs before. */
  jobs: string[];
  notes: string[];
}

export interface Step {
  number: number;
  name: string;
  about: string;
  inputs: number[];
  count: number;
  rows: ResultRow[];
  refused: string | null;
}

export interface StepsResult {
  kind: 'step';
  app: string;
  place: string;
  steps: Step[];
  /** The step at which a condition was fulfilled, or that was named, and how many of its records fulfil the condition. */
  stopped: { step: number; fulfilling: number } | null;
  notes: string[];
}

export interface SiftResult {
  kind: 'sift';
  rows: ResultRow[];
  outcome: string[];
  oneMinimal: boolean;
  stopped: string | null;
  witnesses: number;
  runs: number;
  rowsRun: number;
  seconds: string;
}

export type Result = ReplayResult | StepsResult | SiftResult;

export class ResultError extends Error {}

type Fields = Record<string, Json>;

/** Throws ResultError, which says what is wrong with the text. */
export function readResult(text: string): Result {
  let document: Json;
  try {
    document = parseExact(text);
  } catch {
    throw new ResultError('It is no JSON: write it by lineage replay, step or sift with --json.');
  }
  const fields = fieldsOf(document);
  if ('error' in fields)
    throw new ResultError(`The command ended with an error: ${of(fields, 'error')}`);
  if ('steps' in fields) return stepsOf(fields);
  if ('one_minimal' in fields) return siftOf(fields);
  if ('rows' in fields && 'left_out' in fields) return replayOf(fields);
  throw new ResultError('It is no result of lineage replay, step or sift.');
}

function replayOf(fields: Fields): ReplayResult {
  return {
    kind: 'replay',
    app: textOf(fields, 'app'),
    rows: listOf(fields, 'rows').map(fieldsOf).map(replayedRow),
    added: 'new' in fields ? listOf(fields, 'new').map(shownText) : [],
    witnesses: numberOf(fields, 'witnesses'),
    leftOut: numberOf(fields, 'left_out'),
    readsAll: textOf(fields, 'read') !== 'witnesses',
    jobs: 'jobs' in fields ? listOf(fields, 'jobs').map(fieldsOf).map(jobLine) : [],
    notes: [...textsOf(fields, 'reasons'), ...textsOf(fields, 'uncertain')],
  };
}

function jobLine(job: Fields): string {
  const output = textOf(job, 'output');
  const number = (name: string) => numberOf(job, name);
  if ('changed' in job) {
    return `${output}: ${number('changed')} changed, ${number('gone')} gone, ${number('new')} new`;
  }
  const end = field(job, 'reproduced') === true ? 'as they were' : 'not all as they were';
  return `${output}: ${counted(number('rows'), 'row')} computed again, ${end}`;
}

function replayedRow(row: Fields): ReplayedRow {
  const candidates = 'candidates' in row ? listOf(row, 'candidates') : [field(row, 'after')];
  return {
    place: optionalOf(row, 'place'),
    before: of(row, 'before'),
    after: candidates.flatMap((one) => (one === null ? [] : [shownText(one)])),
    state: textOf(row, 'state'),
  };
}

function stepsOf(fields: Fields): StepsResult {
  const steps = listOf(fields, 'steps').map(fieldsOf).map(stepOf);
  if (steps.length === 0) throw new ResultError('It has no steps.');
  const stopped = fields.stopped == null ? null : fieldsOf(fields.stopped);
  return {
    kind: 'step',
    app: textOf(fields, 'app'),
    place: textOf(fields, 'place'),
    steps,
    stopped: stopped && {
      step: numberOf(stopped, 'step'),
      fulfilling: numberOf(stopped, 'fulfilling'),
    },
    notes: [...textsOf(fields, 'reasons'), ...textsOf(fields, 'not_tested')],
  };
}

function stepOf(step: Fields): Step {
  return {
    number: numberOf(step, 'step'),
    name: textOf(step, 'name'),
    about: optionalOf(step, 'about') ?? optionalOf(step, 'call_site') ?? '',
    inputs: listOf(step, 'inputs').map((one) => asNumber(one, 'inputs')),
    count: numberOf(step, 'count'),
    rows: listOf(step, 'items').map(fieldsOf).map(resultRow),
    refused: optionalOf(step, 'refused'),
  };
}

function siftOf(fields: Fields): SiftResult {
  return {
    kind: 'sift',
    rows: listOf(fields, 'rows').map(fieldsOf).map(resultRow),
    outcome: listOf(fields, 'outcome').map(shownText),
    oneMinimal: fields.one_minimal === true,
    stopped: optionalOf(fields, 'stopped'),
    witnesses: numberOf(fields, 'witnesses'),
    runs: numberOf(fields, 'runs'),
    rowsRun: numberOf(fields, 'rows_run'),
    seconds: of(fields, 'seconds'),
  };
}

function resultRow(row: Fields): ResultRow {
  const value = row.row ?? row.text ?? null;
  return { place: optionalOf(row, 'location'), text: value === null ? null : shownText(value) };
}

function fieldsOf(value: Json | undefined): Fields {
  if (value == null || typeof value !== 'object' || Array.isArray(value))
    throw missing('an object');
  if (value instanceof ExactNumber) throw missing('an object');
  return value;
}

function field(fields: Fields, name: string): Json {
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (value === undefined) throw missing(name);
  return value;
}

const of = (fields: Fields, name: string) => shownText(field(fields, name));

function textOf(fields: Fields, name: string): string {
  const value = field(fields, name);
  if (typeof value !== 'string') throw missing(name);
  return value;
}

function optionalOf(fields: Fields, name: string): string | null {
  const value = Object.hasOwn(fields, name) ? fields[name] : null;
  return value == null ? null : shownText(value);
}

function listOf(fields: Fields, name: string): Json[] {
  const value = field(fields, name);
  if (!Array.isArray(value)) throw missing(name);
  return value;
}

const textsOf = (fields: Fields, name: string) =>
  Object.hasOwn(fields, name) ? listOf(fields, name).map(shownText) : [];

const numberOf = (fields: Fields, name: string) => asNumber(field(fields, name), name);

function asNumber(value: Json, name: string): number {
  const found = value instanceof ExactNumber ? Number(value.digits) : NaN;
  if (!Number.isSafeInteger(found) || found < 0) throw missing(name);
  return found;
}

const missing = (what: string) =>
  new ResultError(`It is no whole result of lineage replay, step or sift: ${what} is not there.`);
