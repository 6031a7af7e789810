/** What the address of each page holds beside its path. */

import type { Direction } from '../api/types';
import { oneOf, text, texts, type Params } from './params';

export interface ApplicationsSearch {
  q?: string;
  status?: 'running' | 'ok' | 'failed' | 'abandoned';
  complete?: 'yes' | 'no';
}

export function applicationsSearch(params: Params): ApplicationsSearch {
  return {
    q: text(params.q),
    status: oneOf(params.status, ['running', 'ok', 'failed', 'abandoned']),
    complete: oneOf(params.complete, ['yes', 'no']),
  };
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
  /** The row that is shown in its file. */
  row?: string;
  /** Rows that were selected, by address. */
  sel?: string[];
}

export function applicationSearch(params: Params): ApplicationSearch {
  return {
    node: text(params.node),
    tab: oneOf(params.tab, ['rows', 'about']),
    q: text(params.q),
    partition: text(params.partition),
    unfold: texts(params.unfold),
    trace: text(params.trace),
    at: text(params.at),
    row: text(params.row),
    sel: texts(params.sel),
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

export interface DeadLettersSearch {
  /** Just those of one application. */
  app?: string;
}

export function deadLettersSearch(params: Params): DeadLettersSearch {
  return { app: text(params.app) };
}

export interface SuspectsSearch {
  place?: string[];
  q?: string;
}

export function suspectsSearch(params: Params): SuspectsSearch {
  return { place: texts(params.place), q: text(params.q) };
}
