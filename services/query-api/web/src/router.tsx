import {
  createRootRoute,
  createRoute,
  createRouter,
  type RouterHistory,
} from '@tanstack/react-router';

import { ErrorNotice } from './components/ErrorNotice';
import { ApplicationPage } from './pages/ApplicationPage';
import { ApplicationsPage } from './pages/ApplicationsPage';
import { ComparePage } from './pages/ComparePage';
import { NotFoundPage } from './pages/NotFoundPage';
import { Shell } from './pages/Shell';
import { SuspectsPage } from './pages/SuspectsPage';
import { TracePage } from './pages/TracePage';
import { formatParams, parseParams } from './url/params';
import {
  applicationSearch,
  applicationsSearch,
  compareSearch,
  suspectsSearch,
} from './url/searches';

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NotFoundPage,
  errorComponent: ({ error }: { error: unknown }) => (
    <main className="page" id="main">
      <ErrorNotice error={error instanceof Error ? error : new Error(String(error))} />
    </main>
  ),
});
const getParentRoute = () => root;

const routeTree = root.addChildren([
  createRoute({
    getParentRoute,
    path: '/',
    component: ApplicationsPage,
    validateSearch: applicationsSearch,
  }),
  createRoute({
    getParentRoute,
    path: '/apps/$app',
    component: ApplicationPage,
    validateSearch: applicationSearch,
  }),
  createRoute({
    getParentRoute,
    path: '/apps/$app/compare',
    component: ComparePage,
    validateSearch: compareSearch,
  }),
  createRoute({
    getParentRoute,
    path: '/apps/$app/suspects',
    component: SuspectsPage,
    validateSearch: suspectsSearch,
  }),
  createRoute({ getParentRoute, path: '/traces/$trace', component: TracePage }),
]);

export const createAppRouter = (history?: RouterHistory) =>
  createRouter({ routeTree, history, parseSearch: parseParams, stringifySearch: formatParams });

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
