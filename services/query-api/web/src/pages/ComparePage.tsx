import { useQuery } from '@tanstack/react-query';
import { Link, getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { applicationQuery, diffQuery } from '../api/queries';
import type { DiffGroup, DiffSide } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { RowsOfSide } from '../components/RowsOfSide';
import { useTitle } from '../components/useTitle';
import { counted } from '../lib/format';
import { ofPlaces } from '../trace/requests';
import { Notes } from '../trace/TraceNotes';
import { ApplicationHead } from './ApplicationHead';

const route = getRouteApi('/apps/$app/compare');

/** What two rows are made of (or went into), side by side. */
export function ComparePage(): ReactNode {
  const { app } = route.useParams();
  const { left, right, direction } = route.useSearch();
  useTitle('Compare');
  const detail = useQuery(applicationQuery(app));
  const query = useQuery({
    ...diffQuery(app, ofPlaces(direction, [left ?? '']), ofPlaces(direction, [right ?? ''])),
    enabled: left !== undefined && right !== undefined,
  });
  const verb = direction === 'backward' ? 'was made of' : 'went into';
  return (
    <main className="page" id="main">
      {detail.data && <ApplicationHead app={detail.data} />}
      <div className="page-head">
        <h2>Compare two rows</h2>
        <Link
          className="button"
          to="/apps/$app/compare"
          params={{ app }}
          search={{ left, right, direction: direction === 'backward' ? 'forward' : 'backward' }}
        >
          {direction === 'backward' ? 'Forward instead' : 'Backward instead'}
        </Link>
      </div>
      {(left === undefined || right === undefined) && (
        <Empty title="Two rows are needed.">
          <p>Select two rows of a node, then choose “Compare”.</p>
        </Empty>
      )}
      {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && left !== undefined && right !== undefined && (
        <Loading what="the comparison" />
      )}
      {query.data && (
        <>
          <div className="sides">
            {[
              { place: left, side: query.data.left, name: 'Left' },
              { place: right, side: query.data.right, name: 'Right' },
            ].map(({ place, side, name }) => (
              <ComparedRow key={name} app={app} name={name} place={place ?? ''} side={side}>
                {verb} {counted(side.count, 'row')}
              </ComparedRow>
            ))}
          </div>
          <Notes notes={query.data.warnings} />
          {query.data.groups.map((group) => (
            <Difference key={group.node} group={group} />
          ))}
          {query.data.groups.length === 0 && (
            <Empty title="Neither row has anything in this direction." />
          )}
        </>
      )}
    </main>
  );
}

interface ComparedRowProps {
  app: string;
  name: string;
  place: string;
  side: DiffSide;
  children: ReactNode;
}

/** Which row it is, and what it says. */
function ComparedRow({ app, name, place, side, children }: ComparedRowProps) {
  const row = side.start[0]?.items[0];
  return (
    <div className="side">
      <h3>{name}</h3>
      <ul className="plain-rows">
        <li>
          <span className="start-place">{row?.location ?? place}</span> <AsItIsNow of={row} />
          {row?.text}
        </li>
      </ul>
      <p>
        {children} ·{' '}
        <Link to="/apps/$app" params={{ app }} search={{ trace: side.trace }}>
          show the trace
        </Link>
      </p>
    </div>
  );
}

function Difference({ group }: { group: DiffGroup }) {
  return (
    <section className="difference" aria-label={group.label}>
      <h3>
        {group.label} {group.path !== null && <span className="faint">{group.path}</span>}
      </h3>
      <p className="faint">{counted(group.both, 'row')} in both</p>
      <div className="sides">
        <RowsOfSide title="Only left" count={group.only_left.count} items={group.only_left.items} />
        <RowsOfSide
          title="Only right"
          count={group.only_right.count}
          items={group.only_right.items}
        />
      </div>
    </section>
  );
}
