import { useState, type ReactNode } from 'react';

import { counted } from '../lib/format';

const FEW = 500;

interface Props<Row> {
  of: Row[];
  /** A word for one of them. */
  what: string;
  children: (rows: Row[]) => ReactNode;
}

/** The first of many, and more of them on demand. */
export function Listed<Row>({ of, what, children }: Props<Row>): ReactNode {
  const [limit, setLimit] = useState(FEW);
  const more = of.length - limit;
  return (
    <>
      {of.length > 0 && children(of.slice(0, limit))}
      {more > 0 && (
        <p className="more">
          <button type="button" className="button" onClick={() => setLimit(limit + FEW)}>
            Show more ({counted(more, what)})
          </button>
        </p>
      )}
    </>
  );
}
