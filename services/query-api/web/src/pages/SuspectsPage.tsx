import { useQuery } from '@tanstack/react-query';
import { Link, getRouteApi } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';

import { applicationQuery, suspectsQuery } from '../api/queries';
import { AsItIsNow } from '../components/AsItIsNow';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { MarkedText } from '../components/MarkedText';
import { useTitle } from '../components/useTitle';
import { count, counted } from '../lib/format';
import { Notes } from '../trace/TraceNotes';
import { ApplicationHead } from './ApplicationHead';

const route = getRouteApi('/apps/$app/suspects');
const FEW = 50;
const MANY = 500;
const NONE: ReadonlySet<string> = new Set();

/** The source rows behind several outputs, those that went into most of them first. */
export function SuspectsPage(): ReactNode {
  const { app } = route.useParams();
  const { place = [], q = '' } = route.useSearch();
  const [limit, setLimit] = useState(FEW);
  useTitle('Suspects');
  const detail = useQuery(applicationQuery(app));
  const query = useQuery({ ...suspectsQuery(app, place, limit), enabled: place.length > 0 });
  const found = query.data;
  return (
    <main className="page" id="main">
      {detail.data && <ApplicationHead app={detail.data} />}
      <div className="page-head">
        <h2>Suspects</h2>
        {found && (
          <span className="faint">
            {counted(found.total, 'row')} behind {counted(found.outputs, 'output')}
          </span>
        )}
      </div>
      <p className="faint">
        Rows that went into several of the outputs you chose, most first: what is wrong with all of
        them is likely to be near the top.
      </p>
      {place.length === 0 && (
        <Empty title="No outputs were chosen.">
          <p>Select two or more rows of an output, then choose “Suspects”.</p>
        </Empty>
      )}
      {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && place.length > 0 && <Loading what="suspects" />}
      {found !== undefined && <Notes notes={found.warnings} />}
      {found?.items.length === 0 && <Empty title="No source row is behind these outputs." />}
      {found !== undefined && found.items.length > 0 && (
        <div className="table-frame">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Outputs</th>
                <th scope="col">Place</th>
                <th scope="col">Text</th>
                <th scope="col">
                  <span className="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {found.items.map((item) => (
                <tr key={item.address}>
                  <td className="suspect-outputs">
                    <meter
                      min={0}
                      max={found.outputs}
                      value={item.outputs}
                      aria-label={`${item.outputs} of ${found.outputs} outputs`}
                    />{' '}
                    {count(item.outputs)} of {count(found.outputs)}
                  </td>
                  <td className="start-place">{item.location ?? item.address}</td>
                  <td className="suspect-text">
                    <AsItIsNow of={item} />
                    {item.text !== null && <MarkedText text={item.text} search={q} shared={NONE} />}
                  </td>
                  <td>
                    <Link
                      to="/apps/$app"
                      params={{ app }}
                      search={{ node: item.node, row: item.address, q: q || undefined }}
                    >
                      in its file
                    </Link>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found !== undefined && found.total > found.items.length && limit < MANY && (
        <p className="more">
          <button type="button" className="button" onClick={() => setLimit(MANY)}>
            Show more
          </button>
        </p>
      )}
    </main>
  );
}
