import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';

import { Problem } from '../api/problem';
import { rowsAroundQuery } from '../api/queries';
import type { GraphNode, RawRow } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { CopyButton } from '../components/CopyButton';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { MarkedText } from '../components/MarkedText';
import { Place } from '../components/Place';
import { RowFields } from './RowFields';
import { useColumns } from './useColumns';

const AROUND = [3, 10, 30] as const;
const NO_ROWS: RawRow[] = [];

interface Props {
  app: string;
  /** The node of the row; undefined: it is not drawn. */
  node: GraphNode | undefined;
  item: string;
  search: string;
  shared: ReadonlySet<string>;
  onClose: () => void;
}

/** A row in its file, with the lines before and after it. */
export function RawRows({ app, node, item, search, shared, onClose }: Props) {
  const [more, setMore] = useState(0);
  const around = AROUND[more] ?? AROUND[0];
  const query = useQuery({
    ...rowsAroundQuery(app, item, around),
    placeholderData: keepPreviousData,
  });
  const asked = query.data?.rows.find((row) => row.asked);
  const columns = useColumns(app, node, query.data?.rows ?? NO_ROWS);
  return (
    <section className="raw" aria-label="Row in its file">
      <div className="raw-head">
        <h3>
          <Place place={asked?.location ?? item} title={query.data?.path} />
        </h3>
        {more < AROUND.length - 1 && query.data !== undefined && (
          <button type="button" className="button button-small" onClick={() => setMore(more + 1)}>
            More lines
          </button>
        )}
        {asked?.text != null && (
          <CopyButton className="button button-small" text={asked.text}>
            Copy row
          </CopyButton>
        )}
        <button type="button" className="button button-small button-quiet" onClick={onClose}>
          Close
        </button>
      </div>
      {query.data?.changed === true && (
        <p className="raw-changed" role="note">
          The file has changed since: numbers are of the file as it was, and texts marked “as it is
          now” may be of other rows.
        </p>
      )}
      {query.error instanceof Problem && query.error.status === 403 ? (
        <p className="raw-changed" role="note">
          You may trace rows, but not see what they say. Ask whoever runs this server for the right
          to see rows.
        </p>
      ) : (
        query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.isPending && <Loading what="lines" />}
      <RowFields columns={columns} text={asked?.text ?? null} />
      {query.data && <Lines rows={query.data.rows} search={search} shared={shared} />}
    </section>
  );
}

function Lines({ rows, search, shared }: { rows: RawRow[] } & Pick<Props, 'search' | 'shared'>) {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    const asked = list.current?.querySelector<HTMLElement>('[aria-current]');
    if (list.current && asked) {
      list.current.scrollTop = asked.offsetTop - list.current.clientHeight / 2;
    }
  }, [rows]);
  return (
    <ol className="raw-lines" ref={list} tabIndex={0} aria-label="Lines">
      {rows.map((row) => (
        <li key={row.number} aria-current={row.asked || undefined}>
          <span className="raw-number">{row.number}</span>
          <span className="raw-text">
            <AsItIsNow of={row} />
            {row.text === null ? (
              <span className="faint">no text</span>
            ) : (
              <MarkedText text={row.text} search={search} shared={row.asked ? shared : NONE} />
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}

const NONE: ReadonlySet<string> = new Set();
