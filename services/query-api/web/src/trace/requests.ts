/** What is asked of the service when rows are traced. */

import type { ColumnValue, Direction, Trace, TraceRequest, TraceStart } from '../api/types';

export const toTheEnds = (direction: Direction, start: TraceStart): TraceRequest => ({
  direction,
  start,
  until: 'ends',
  steps: null,
});

export const ofPlaces = (direction: Direction, places: string[]) =>
  toTheEnds(direction, { places });

export const ofMatches = (direction: Direction, node: string, contains: string) =>
  toTheEnds(direction, { node, contains });

export const ofValues = (direction: Direction, node: string, values: ColumnValue[]) =>
  toTheEnds(direction, { node, values });

/** The same trace, so many steps along the graph; null: all the way. */
export const inSteps = (
  { direction, start }: TraceRequest,
  steps: number | null,
): TraceRequest => ({
  direction,
  start,
  until: 'ends',
  steps,
});

/** Whether a step further could find anything: some node that was reached is linked to another. */
export function canGoOn(trace: Trace, links: readonly { src: string; dest: string }[]): boolean {
  const reached = new Set(trace.groups.map((group) => group.node));
  return links.some((link) => reached.has(trace.direction === 'backward' ? link.dest : link.src));
}

/** What a trace starts from, in a few words. */
export function startWords(trace: Trace): string {
  const { start } = trace.request;
  if ('places' in start) {
    const [first = ''] = start.places;
    const listed = trace.start.flatMap((group) => group.items);
    const place = listed.find((item) => item.address === first)?.location ?? first;
    return start.places.length === 1 ? place : `${place} and ${start.places.length - 1} more`;
  }
  return 'contains' in start ? `rows with “${start.contains}”` : 'chosen items';
}
