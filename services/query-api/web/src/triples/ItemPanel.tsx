import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import type { TripleTrace } from '../api/types';
import { count } from '../lib/format';
import { useFocusOnChange } from '../pages/useFocusOnChange';
import type { Trail } from './tripleGraph';

const SIDES = [
  ['upstream', 'Derived from'],
  ['downstream', 'Went into'],
] as const;
const LISTED = 100;

interface Props {
  trace: TripleTrace;
  trail: Trail;
  item: string;
  onSelect: (item: string) => void;
}

/** An item of a trace, and what is beside it on the way. */
export function ItemPanel({ trace, trail, item, onSelect }: Props): ReactNode {
  const shown = useFocusOnChange(item);
  const here = { data_set: trace.data_set, item };
  return (
    <div className="panel-content" ref={shown}>
      <div className="overview">
        <h2 tabIndex={-1}>{item}</h2>
        <p>
          <Link className="button" to="/triples" search={{ ...here, direction: 'backward' }}>
            What it was derived from
          </Link>{' '}
          <Link className="button" to="/triples" search={{ ...here, direction: 'forward' }}>
            What was derived from it
          </Link>
        </p>
        {SIDES.map(([side, title]) => {
          const others = [...(trail.get(item)?.[side] ?? [])];
          return (
            <section key={side} aria-label={title}>
              <h3>
                {title} <span className="chip-count">{count(others.length)}</span>
              </h3>
              <ul className="ends">
                {others.slice(0, LISTED).map(([other, ops]) => (
                  <li key={other}>
                    <button type="button" onClick={() => onSelect(other)}>
                      {other}
                    </button>
                    <span className="faint"> by {ops.join(', ')}</span>
                  </li>
                ))}
              </ul>
              {others.length > LISTED && (
                <p className="faint">
                  {count(LISTED)} of {count(others.length)}
                </p>
              )}
            </section>
          );
        })}
        <p className="faint">On the way of this trace alone; it may have others.</p>
      </div>
    </div>
  );
}
