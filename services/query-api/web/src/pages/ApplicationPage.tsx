import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useEffect, type ReactNode } from 'react';

import { applicationQuery } from '../api/queries';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { useTitle } from '../components/useTitle';
import { ApplicationHead } from './ApplicationHead';
import { DeleteApplication } from './DeleteApplication';
import type { ApplicationSearch } from '../url/searches';
import { LiveProgress } from './LiveProgress';
import { Workbench } from './Workbench';

const route = getRouteApi('/apps/$app');

/** One application: its graph, and beside it what is looked at. */
export function ApplicationPage(): ReactNode {
  const { app } = route.useParams();
  const navigate = useNavigate({ from: '/apps/$app' });
  const query = useQuery(applicationQuery(app));
  const detail = query.data;
  useTitle(detail?.name ?? app);
  // `latest` and beginnings of ids work, but what is shared should stay what it is.
  useEffect(() => {
    if (detail !== undefined && detail.app !== app) {
      void navigate({
        params: { app: detail.app },
        search: (before: ApplicationSearch) => before,
        replace: true,
      });
    }
  }, [detail, app, navigate]);
  if (query.isPending) {
    return (
      <main className="page" id="main">
        <Loading what="the application" />
      </main>
    );
  }
  if (detail === undefined) {
    return (
      <main className="page" id="main">
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      </main>
    );
  }
  return (
    <main className="app-page" id="main">
      <ApplicationHead app={detail}>
        <DeleteApplication app={detail} />
      </ApplicationHead>
      {!detail.final && <LiveProgress app={detail.app} />}
      <Workbench detail={detail} />
    </main>
  );
}
