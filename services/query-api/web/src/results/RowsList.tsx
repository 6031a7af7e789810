import type { ReactNode } from 'react';

import { Listed } from './Listed';
import type { ResultRow } from './reading';

/** Rows with their places. */
export function RowsList({ rows }: { rows: ResultRow[] }): ReactNode {
  return (
    <Listed of={rows} what="row">
      {(listed) => (
        <ul className="plain-rows">
          {listed.map(({ place, text }, at) => (
            <li key={at}>
              {place !== null && <span className="start-place">{place} </span>}
              {text ?? <span className="faint">no value was kept</span>}
            </li>
          ))}
        </ul>
      )}
    </Listed>
  );
}
