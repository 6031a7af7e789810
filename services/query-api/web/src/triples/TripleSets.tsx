import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { tripleSetsQuery } from '../api/queries';
import { count } from '../lib/format';

/** Data sets of triples, where the server has some. */
export function TripleSets(): ReactNode {
  const sets = useQuery(tripleSetsQuery());
  const listed = sets.data?.items ?? [];
  if (listed.length === 0) return null;
  return (
    <section aria-label="Triples">
      <h2>
        Triples <span className="chip-count">{count(listed.length)}</span>
      </h2>
      <ul className="plain-rows">
        {listed.map(({ name, rows, is_indexed: isIndexed, damaged }) => (
          <li key={name}>
            <Link to="/triples" search={{ data_set: name, direction: 'backward' }}>
              {name}
            </Link>{' '}
            <span className="faint">
              {count(rows)} rows imported{isIndexed ? '' : ', not indexed yet'}
              {damaged && `, damaged: ${damaged}`}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
