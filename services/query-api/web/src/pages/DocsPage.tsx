import { useQuery } from '@tanstack/react-query';
import { Suspense, lazy, type ReactNode } from 'react';

import { meQuery } from '../api/queries';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { useTitle } from '../components/useTitle';

const ApiReference = lazy(() => import('../docs/ApiReference'));

/** The document of the API, where requests can be tried. Asks who the reader is first, as all pages do. */
export function DocsPage(): ReactNode {
  useTitle('HTTP API');
  const me = useQuery(meQuery());
  return (
    <main className="page" id="main">
      {me.isPending && <Loading what="the API" />}
      {me.isError && <ErrorNotice error={me.error} />}
      {me.isSuccess && (
        <Suspense fallback={<Loading what="the API" />}>
          <ApiReference />
        </Suspense>
      )}
    </main>
  );
}
