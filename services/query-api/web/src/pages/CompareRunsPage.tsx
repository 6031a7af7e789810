import { useQuery } from '@tanstack/react-query';
import { Link, getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState, type ReactNode, type SubmitEvent } from 'react';

import { runsDiffQuery } from '../api/queries';
import type { RunsDiff, RunsDiffGroup } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { RowsOfSide } from '../components/RowsOfSide';
import { useTitle } from '../components/useTitle';
import { count, counted } from '../lib/format';
import { Notes } from '../trace/TraceNotes';
import type { CompareRunsSearch } from '../url/searches';

const route = getRouteApi('/jobs/compare');
const NAMES = ['Left', 'Right'] as const;

/** What the same row is made of (or went into) in two runs of a job, side by side. */
export function CompareRunsPage(): ReactNode {
  const search = route.useSearch();
  useTitle('Compare runs');
  const { left, right, place, other, direction } = search;
  return (
    <main className="page" id="main">
      <nav aria-label="Where you are" className="crumbs">
        <Link to="/jobs">Jobs and datasets</Link>
        <span aria-hidden>/</span>
      </nav>
      <div className="page-head">
        <h1>Compare a row of two runs</h1>
      </div>
      {left === undefined || right === undefined ? (
        <Empty title="Two runs are needed.">
          <p>
            Open a <Link to="/jobs">job</Link> and choose two of its runs.
          </p>
        </Empty>
      ) : (
        <>
          <RowForm key={JSON.stringify(search)} search={search} />
          {place !== undefined && (
            <Compared
              direction={direction}
              left={{ app: left, place }}
              right={{ app: right, place: other ?? place }}
            />
          )}
        </>
      )}
    </main>
  );
}

/** Which row is compared. */
function RowForm({ search }: { search: CompareRunsSearch }) {
  const navigate = useNavigate({ from: '/jobs/compare' });
  const [place, setPlace] = useState(search.place ?? '');
  const [other, setOther] = useState(search.other ?? '');
  const [direction, setDirection] = useState(search.direction);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const rows = { place: place.trim() || undefined, other: other.trim() || undefined };
    void navigate({ search: { ...search, ...rows, direction } });
  };
  return (
    <form className="filters" onSubmit={submit}>
      <input
        className="input"
        aria-label="Row"
        placeholder="out/part-00000:3, or out#city=Oslo"
        required
        value={place}
        onChange={(event) => setPlace(event.target.value)}
      />
      <input
        className="input"
        aria-label="Row of the right run"
        placeholder="the same place in the right run"
        value={other}
        onChange={(event) => setOther(event.target.value)}
      />
      <select
        className="input"
        aria-label="Direction"
        value={direction}
        onChange={(event) =>
          setDirection(event.target.value === 'forward' ? 'forward' : 'backward')
        }
      >
        <option value="backward">what it was made of</option>
        <option value="forward">what it went into</option>
      </select>
      <button type="submit" className="button">
        Compare
      </button>
    </form>
  );
}

function Compared(asked: {
  direction: CompareRunsSearch['direction'];
  left: { app: string; place: string };
  right: { app: string; place: string };
}) {
  const { direction, left, right } = asked;
  const query = useQuery(runsDiffQuery(direction, left, right));
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Loading what="the comparison" />;
  const verb = direction === 'backward' ? 'was made of' : 'went into';
  const { data } = query;
  return (
    <>
      <div className="sides">
        {[data.left, data.right].map((side, at) => {
          const row = side.start[0]?.items[0];
          const app = data.apps[at] ?? '';
          return (
            <div className="side" key={NAMES[at]}>
              <h2>
                <Link to="/apps/$app" params={{ app }}>
                  {app}
                </Link>
              </h2>
              <ul className="plain-rows">
                <li>
                  <span className="start-place">{row?.location ?? side.from.join(', ')}</span>{' '}
                  <AsItIsNow of={row} />
                  {row?.text}
                </li>
              </ul>
              <p>
                {verb} {counted(side.count, 'row')}
              </p>
            </div>
          );
        })}
      </div>
      <Notes notes={notesOf(data)} />
      {data.groups.map((group, at) => (
        <Source key={at} group={group} />
      ))}
      {data.groups.length === 0 && <Empty title="Neither row has anything in this direction." />}
    </>
  );
}

/** What limits the comparison. */
function notesOf({ exact, complete, reasons, warnings }: RunsDiff): string[] {
  const notes: string[] = [];
  if (!exact) notes.push(`Not exact${reasons.length > 0 ? `: ${reasons.join('; ')}` : ''}.`);
  if (!complete) notes.push('Incomplete: lineage is missing, so rows may be missing here.');
  return [...notes, ...warnings];
}

/** Rows of one source (forward: output) of both runs. */
function Source({ group }: { group: RunsDiffGroup }) {
  const paths = [...new Set([group.only_left.path, group.only_right.path])].filter(Boolean);
  const { only_left, only_right, undecided_left, undecided_right } = group;
  const unknown = undecided_left.count + undecided_right.count > 0;
  return (
    <section className="difference" aria-label={only_left.name}>
      <h3>
        {only_left.name} <span className="faint">{paths.join(', ')}</span>
      </h3>
      <p className="faint">
        {counted(group.both, 'row')} in both: {count(group.same_places)} by place,{' '}
        {count(group.same_texts)} by text
      </p>
      <div className="sides">
        <RowsOfSide title="Only left" count={only_left.count} items={only_left.items} />
        <RowsOfSide title="Only right" count={only_right.count} items={only_right.items} />
      </div>
      {unknown && (
        <>
          <p className="faint">Not known{group.reason && `: ${group.reason}`}</p>
          <div className="sides">
            <RowsOfSide
              title="Not known, left"
              count={undecided_left.count}
              items={undecided_left.items}
            />
            <RowsOfSide
              title="Not known, right"
              count={undecided_right.count}
              items={undecided_right.items}
            />
          </div>
        </>
      )}
    </section>
  );
}
