import {
  createRootRoute,
  createRoute,
  createRouter,
  type RouterHistory,
} from '@tanstack/react-router';

import { ErrorNotice } from './components/ErrorNotice';
import { ApplicationPage } from './pages/ApplicationPage';
import { ApplicationsPage } from './pages/ApplicationsPage';
import { CellsPage } from './pages/CellsPage';
import { ComparePage } from './pages/ComparePage';
import { CompareRunsPage } from './pages/CompareRunsPage';
import { DeadLettersPage } from './pages/DeadLettersPage';
import { DocsPage } from './pages/DocsPage';
import { FollowPage } from './pages/FollowPage';
import { JobsPage } from './pages/JobsPage';
import { NotFoundPage } from './pages/NotFoundPage';
import { ResultsPage } from './pages/ResultsPage';
import { Shell } from './pages/Shell';
import { SuspectsPage } from './pages/SuspectsPage';
import { TracePage } from './pages/TracePage';
import { TriplesPage } from './pages/TriplesPage';
import { WatchPage } from './pages/WatchPage';
import { formatParams, parseParams } from './url/params';
import {
  applicationSearch,
  applicationsSearch,
  cellsSearch,
  compareRunsSearch,
  compareSearch,
  deadLettersSearch,
  followSearch,
  jobsSearch,
  suspectsSearch,
  triplesSearch,
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

const applications = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: ApplicationsPage,
  validateSearch: applicationsSearch,
});
const application = createRoute({
  getParentRoute: () => root,
  path: '/apps/$app',
  component: ApplicationPage,
  validateSearch: applicationSearch,
});
const compare = createRoute({
  getParentRoute: () => root,
  path: '/apps/$app/compare',
  component: ComparePage,
  validateSearch: compareSearch,
});
const cells = createRoute({
  getParentRoute: () => root,
  path: '/apps/$app/cells',
  component: CellsPage,
  validateSearch: cellsSearch,
});
const suspects = createRoute({
  getParentRoute: () => root,
  path: '/apps/$app/suspects',
  component: SuspectsPage,
  validateSearch: suspectsSearch,
});
const watch = createRoute({
  getParentRoute: () => root,
  path: '/apps/$app/watch',
  component: WatchPage,
});
const deadLetters = createRoute({
  getParentRoute: () => root,
  path: '/dead-letters',
  component: DeadLettersPage,
  validateSearch: deadLettersSearch,
});
const follow = createRoute({
  getParentRoute: () => root,
  path: '/follow',
  component: FollowPage,
  validateSearch: followSearch,
});
const jobs = createRoute({
  getParentRoute: () => root,
  path: '/jobs',
  component: JobsPage,
  validateSearch: jobsSearch,
});
const compareRuns = createRoute({
  getParentRoute: () => root,
  path: '/jobs/compare',
  component: CompareRunsPage,
  validateSearch: compareRunsSearch,
});
const results = createRoute({
  getParentRoute: () => root,
  path: '/results',
  component: ResultsPage,
});
const docs = createRoute({
  getParentRoute: () => root,
  path: '/docs',
  component: DocsPage,
});
const trace = createRoute({
  getParentRoute: () => root,
  path: '/traces/$trace',
  component: TracePage,
});

const triples = createRoute({
  getParentRoute: () => root,
  path: '/triples',
  component: TriplesPage,
  validateSearch: triplesSearch,
});

const routeTree = root.addChildren([
  applications,
  application,
  compare,
  cells,
  suspects,
  watch,
  deadLetters,
  follow,
  jobs,
  compareRuns,
  results,
  docs,
  trace,
  triples,
]);

export const createAppRouter = (history?: RouterHistory) =>
  createRouter({ routeTree, history, parseSearch: parseParams, stringifySearch: formatParams });

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
