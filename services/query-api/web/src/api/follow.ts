import { address, send } from './client';
import { eventsOf } from './events';

interface OfBatch {
  query: string;
  batch: number;
}

export interface FollowedRow extends OfBatch {
  event: 'row';
  place: string | null;
  text: string | null;
  exact: boolean;
  reasons: string[];
  committed: boolean;
}

/** What the server tells of a row that is followed: as `lineage follow --json`. */
export type FollowEvent =
  | ({ event: 'read' } & OfBatch)
  | FollowedRow
  | ({ event: 'made'; rows: number } & OfBatch)
  | ({ event: 'late'; count: number } & OfBatch)
  | { event: 'gap' | 'done' | 'waiting'; query: string; reason: string }
  | { event: 'note'; text: string }
  | {
      event: 'end';
      done: boolean;
      complete: boolean;
      time_up: boolean;
      open: Record<string, string>;
    }
  | { event: 'problem' };

/** The events of a row, or of the rows of a source that fulfil a condition, as they happen, until the stream ends; throws a {@link Problem} that it ends with. */
export async function* follow(
  place: string,
  where: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<FollowEvent> {
  const response = await send(address('/follow', { place, where }), {
    headers: { Accept: 'text/event-stream' },
    signal,
  });
  yield* eventsOf<FollowEvent>(response);
}
