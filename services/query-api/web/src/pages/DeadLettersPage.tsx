import { useQuery } from '@tanstack/react-query';
import { Link, getRouteApi } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';

import { Problem } from '../api/problem';
import { deadLettersQuery } from '../api/queries';
import type { DeadLetter } from '../api/types';
import { CopyButton } from '../components/CopyButton';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { useTitle } from '../components/useTitle';
import { count, counted, time } from '../lib/format';

const route = getRouteApi('/dead-letters');
const FEW = 100;
const MANY = 1000;

/** Records that the pipeline could not use, with the reason of each. */
export function DeadLettersPage(): ReactNode {
  const { app } = route.useSearch();
  const [limit, setLimit] = useState(FEW);
  useTitle('Dead letters');
  const query = useQuery(deadLettersQuery(app ?? '', limit));
  const found = query.data;
  const noPipeline = query.error instanceof Problem && query.error.status === 404;
  return (
    <main className="page" id="main">
      <div className="page-head">
        <h1>Dead letters</h1>
        {found && <span className="faint">{counted(found.total, 'record')}</span>}
        <Link className="page-aside" to="/">
          All applications
        </Link>
      </div>
      {app !== undefined && (
        <p>
          Of application{' '}
          <Link to="/apps/$app" params={{ app }}>
            {app}
          </Link>{' '}
          alone;{' '}
          <Link to="/dead-letters" search={{}}>
            show all
          </Link>
          .
        </p>
      )}
      <p className="faint">
        Records that linker or writer could not use. They are kept until somebody has mended what
        was wrong and sends them again; until then the lineage of their application is incomplete.
      </p>
      {query.isPending && <Loading what="dead letters" />}
      {noPipeline && (
        <Empty title="There is no pipeline here.">
          <p>
            {query.error?.message}. Jobs write into the store of this server directly, or it does
            not know their Kafka, which <code>LINEAGE_KAFKA</code> names.
          </p>
        </Empty>
      )}
      {query.error && !noPipeline && (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      )}
      {found?.items.length === 0 && (
        <Empty title="There are none.">
          <p>All that came was used, or was sent again.</p>
        </Empty>
      )}
      {found !== undefined && found.items.length > 0 && <LettersTable letters={found.items} />}
      {found !== undefined && found.total > found.items.length && (
        <p className="more">
          {limit < MANY && (
            <button type="button" className="button" onClick={() => setLimit(MANY)}>
              Show more
            </button>
          )}{' '}
          <span className="faint">
            {count(found.items.length)} of {count(found.total)}; <code>lineage dlq list</code> shows
            all
          </span>
        </p>
      )}
    </main>
  );
}

function LettersTable({ letters }: { letters: DeadLetter[] }) {
  return (
    <div className="table-frame">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Record</th>
            <th scope="col">Refused by</th>
            <th scope="col">Why</th>
            <th scope="col">
              <span className="hidden">Commands</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {letters.map((letter) => (
            <tr key={letter.place}>
              <td>
                <span className="letter-place">{letter.place}</span>
                <span className="reason">
                  {letter.app === null ? (
                    'of no known application'
                  ) : (
                    <Link to="/apps/$app" params={{ app: letter.app }}>
                      {letter.app}
                    </Link>
                  )}
                  {` · ${counted(letter.size, 'byte')}`}
                </span>
              </td>
              <td>
                {letter.service}
                <span className="reason">{time(letter.at)}</span>
              </td>
              <td>
                {letter.reason}
                {letter.cut && (
                  <span className="reason">
                    It was too long to be kept whole: it can be read, not sent again.
                  </span>
                )}
              </td>
              <td>
                <CopyButton className="button button-small" text={commandOf(letter)}>
                  {letter.cut ? 'Copy show command' : 'Copy replay command'}
                </CopyButton>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What cannot be sent again can still be looked at. */
export const commandOf = ({ letter, cut }: Pick<DeadLetter, 'letter' | 'cut'>) =>
  cut ? `lineage dlq show ${letter}` : `lineage dlq replay ${letter}`;
