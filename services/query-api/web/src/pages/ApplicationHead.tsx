import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import type { AppDetail } from '../api/types';
import { JobStatus, Verdict } from '../components/Verdict';
import { counted, duration, elapsed, time } from '../lib/format';

interface Props {
  app: AppDetail;
  children?: ReactNode;
}

/** Which application this is, and how it stands with it. */
export function ApplicationHead({ app, children }: Props) {
  return (
    <div className="app-head">
      <nav aria-label="Where you are" className="crumbs">
        <Link to="/">Applications</Link>
        <span aria-hidden>/</span>
      </nav>
      <h1>
        <Link to="/apps/$app" params={{ app: app.app }}>
          {app.name || app.app}
        </Link>
      </h1>
      <Verdict app={app} />
      <JobStatus status={app.status} />
      <span className="faint app-facts">
        {app.app} · {time(app.started_at)}
        {app.ended_at !== null && ` · ${duration(elapsed(app.started_at, app.ended_at))}`} ·{' '}
        {counted(app.flows, 'flow')}
      </span>
      <Link className="button" to="/jobs" search={{ app: app.app }}>
        Jobs and datasets
      </Link>
      {app.arrays > 0 && (
        <Link className="button" to="/apps/$app/cells" params={{ app: app.app }}>
          Cells of arrays
        </Link>
      )}
      {app.status === 'running' && (
        <Link className="button" to="/apps/$app/watch" params={{ app: app.app }}>
          Watch
        </Link>
      )}
      {children}
    </div>
  );
}
