/** Records that a made-up pipeline could not use: of one application, of none, and one that was cut. */

import type { DeadLetter } from '../src/api/types';
import { aTime } from '../src/testing/samples.ts';

export const INCOMPLETE = 'local-1795230011220';

export function deadLetters(): DeadLetter[] {
  const letter = (offset: number, fields: Partial<DeadLetter>): DeadLetter => ({
    letter: String(offset),
    place: `lineage-flow/${offset % 4}/${1200 + offset}`,
    app: INCOMPLETE,
    service: 'linker',
    reason: 'the frame says version 9; this reader knows 1 and 2',
    at: aTime(1_795_230_100 + offset),
    size: 18_204,
    cut: false,
    ...fields,
  });
  return [
    letter(0, {}),
    letter(1, {
      service: 'writer',
      place: 'lineage-edge/1/77',
      reason: 'block 3/0/7/1 has 12 rows, its head says 14',
    }),
    letter(2, { app: null, reason: 'not a frame: the first bytes are 7b 22 61 70', size: 211 }),
    letter(3, {
      reason: 'the record has 5,242,881 bytes; at most 4,194,304 are read',
      size: 5_242_881,
      cut: true,
    }),
  ];
}
