import { useQuery } from '@tanstack/react-query';
import { Navigate, getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { traceQuery } from '../api/queries';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';

const route = getRouteApi('/traces/$trace');

/** The short address of a trace: leads to its application. */
export function TracePage(): ReactNode {
  const { trace } = route.useParams();
  const query = useQuery(traceQuery(trace));
  if (query.data) {
    return <Navigate to="/apps/$app" params={{ app: query.data.app }} search={{ trace }} replace />;
  }
  return (
    <main className="page" id="main">
      {query.error ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Loading what="the trace" />
      )}
    </main>
  );
}
