import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { runsOfDatasetQuery } from '../api/queries';
import { ErrorNotice } from '../components/ErrorNotice';
import { count, time } from '../lib/format';
import { shownVersions } from './versions';

/** The runs that read and wrote a dataset, the latest first, each with the versions of it. */
export function RunsOfDataset({ namespace, name }: { namespace: string; name: string }) {
  const query = useInfiniteQuery(runsOfDatasetQuery(namespace, name));
  const [first] = query.data?.pages ?? [];
  return (
    <section aria-label="Runs">
      <h3>
        Runs <span className="chip-count">{count(first?.total ?? 0)}</span>
      </h3>
      {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      <ul className="plain-rows">
        {query.data?.pages
          .flatMap((page) => page.items)
          .map(({ app, started_at, wrote, use }) => (
            <li key={JSON.stringify([app, wrote, use.namespace, use.name])}>
              <Link to="/apps/$app" params={{ app }}>
                {app}
              </Link>{' '}
              <span className="faint">
                {time(started_at)} · {wrote ? 'wrote' : 'read'}
              </span>{' '}
              {shownVersions(use.table_versions)}
            </li>
          ))}
      </ul>
      {query.hasNextPage && (
        <button type="button" className="button" onClick={() => void query.fetchNextPage()}>
          Show more runs
        </button>
      )}
    </section>
  );
}
