import type { Item, Trace } from '../api/types';

/**
 * The commands that answer the same question in a terminal, one a line; null where the command
 * line has no words for it. `at`: the node whose items are looked at, if not where the trace ends.
 */
export function traceCommands(trace: Trace, at: string | null = null): string | null {
  const command = commandOf(trace);
  if (command === null) return null;
  const to = (node: string) => `${command} --to ${quoted(node)}`;
  if (isOnTheWay(trace, at)) return to(at);
  const { until, steps } = trace.request;
  if (steps === 1) return `${command} --step`;
  // The command line takes one step at a time; nodes further on have to be named.
  if (steps !== null) return trace.groups.map((group) => to(group.node)).join('\n') || null;
  return until === 'ends' ? command : to(until);
}

/** The command that answers the same question through all jobs; `sharedPlaces`: from all that read them. */
export function allJobsCommand(trace: Trace, sharedPlaces: string[] | null): string | null {
  const command = sharedPlaces === null ? commandOf(trace) : startOf(trace, sharedPlaces);
  return command && `${command} --all-jobs`;
}

function commandOf(trace: Trace): string | null {
  const places = placesOf(trace);
  return places && `${startOf(trace, places)} --app ${quoted(trace.app)}`;
}

function startOf({ direction }: Trace, places: string[]): string {
  return `lineage ${direction === 'backward' ? 'back' : 'forward'} ${places.map(quoted).join(' ')}`;
}

function isOnTheWay(trace: Trace, node: string | null): node is string {
  const isIn = (nodes: readonly { node: string }[]) => nodes.some((one) => one.node === node);
  return isIn(trace.passed) && !isIn(trace.groups) && !isIn(trace.start);
}

/** The places where a trace starts, if all of them are known here. */
export function placesOf(trace: Trace): string[] | null {
  const { start } = trace.request;
  if ('places' in start) return start.places;
  // Rows of DataFrames have no address but the place in their file.
  const place = ({ address, location }: Item) => (trace.computed ? (location ?? address) : address);
  const listed = trace.start.flatMap((group) => group.items.map(place));
  const all = trace.start.reduce((sum, group) => sum + group.count, 0);
  return listed.length > 0 && listed.length === all ? listed : null;
}

/**
 * The places in files where a trace forward starts that other applications may have read, too: those of rows that the
 * application read, in files that are as they were then. Null: it starts elsewhere, or not all of its rows are known here.
 */
export function sharedPlacesOf(trace: Trace, isSource: (node: string) => boolean): string[] | null {
  const { direction, start } = trace;
  if (direction !== 'forward' || start.length === 0) return null;
  const places = new Set<string>();
  for (const { node, count, items, standing } of start) {
    if (!isSource(node) || standing !== 'same' || items.length !== count) return null;
    for (const { location } of items) {
      if (location === null) return null;
      places.add(location);
    }
  }
  return [...places];
}

/** A word as a POSIX shell reads it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./][\w@%+=:,./#-]*$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** What runs a job into a store; null: into the one that its environment names. */
export function runCommand(store: string | null | undefined): string {
  return store ? `lineage --store ${quoted(store)} run job.py` : 'lineage run job.py';
}
