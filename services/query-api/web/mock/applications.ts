/** The applications of the made-up store, the latest first. */

import { flights } from './flights.ts';
import { INCOMPLETE } from './letters.ts';
import { clicks, generated } from './large.ts';
import { pagerank } from './pagerank.ts';
import type { Program } from './program.ts';

const DAY = 86_400;
const NOW = 1_795_250_000;
const OLDER = 120;

export const FLIGHTS = 'local-1795249994956';

export function applications(): Program[] {
  const named = [
    flights({
      app: 'local-1795249999001',
      status: 'running',
      startedAt: NOW,
      flightsPerFile: 300,
      seed: 5,
      unfinished: true,
    }),
    flights({ app: FLIGHTS, status: 'ok', startedAt: NOW - 900, flightsPerFile: 400, seed: 1 }),
    pagerank('local-1795241200417', NOW - 9_000),
    flights({
      app: INCOMPLETE,
      status: 'failed',
      startedAt: NOW - 20_000,
      flightsPerFile: 120,
      seed: 3,
      exact: false,
      reasons: [
        '4 of 61 blocks are missing',
        '4 blocks wait in the spool at worker-3:/shared/lineage (no acknowledgment within 5 s): lineage send',
      ],
    }),
    clicks('local-1795199000777', NOW - 60_000, 1_000_000),
    generated('local-1795180000005', NOW - DAY, 5_000),
  ];
  const older = Array.from({ length: OLDER }, (_, index): Program => {
    const program = flights({
      app: `local-${1795100000000 - index * 86_399_000}`,
      status: index % 17 === 5 ? 'abandoned' : 'ok',
      startedAt: NOW - (index + 2) * DAY,
      flightsPerFile: 5,
      seed: 100 + index,
    });
    return {
      ...program,
      detail: { ...program.detail, name: index % 3 === 0 ? 'nightly totals' : 'flights' },
    };
  });
  return [...named, ...older];
}
