import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link, getRouteApi, useNavigate } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';

import { applicationsQuery, meQuery } from '../api/queries';
import { CopyButton } from '../components/CopyButton';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { SearchInput } from '../components/SearchInput';
import { useKeys } from '../components/useKeys';
import { useTitle } from '../components/useTitle';
import { runCommand } from '../lib/cli';
import { count, counted } from '../lib/format';
import type { AppPage } from '../api/types';
import type { ApplicationsSearch } from '../url/searches';
import { ApplicationsTable } from './ApplicationsTable';

const route = getRouteApi('/');
const PLACEHOLDERS = {
  name: 'Search by name or id ( / )',
  dataset: 'Part of a dataset it read or wrote ( / )',
  call_site: 'Where its code is, as job.py:12 ( / )',
  column: 'A column of a DataFrame ( / )',
};

/** All applications, the latest first. */
export function ApplicationsPage(): ReactNode {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/' });
  useTitle('Applications');
  useKeys(() => undefined);
  const change = (to: ApplicationsSearch) =>
    void navigate({
      search: (before: ApplicationsSearch) => ({ ...before, ...to }),
      replace: true,
    });
  const query = useInfiniteQuery(
    applicationsQuery({
      [search.by === undefined || search.by === 'name' ? 'search' : search.by]: search.q,
      since: search.since && new Date(`${search.since}T00:00:00`).toISOString(),
      until: search.until && new Date(`${search.until}T23:59:59.999`).toISOString(),
      status: search.status,
      complete: search.complete === undefined ? undefined : search.complete === 'yes',
    }),
  );
  const apps = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const total = query.data?.pages[0]?.total ?? 0;
  const [first] = query.data?.pages ?? [];
  const filtered = [search.q, search.since, search.until, search.status, search.complete].some(
    (one) => one !== undefined,
  );
  return (
    <main className="page" id="main">
      <div className="page-head">
        <h1>Applications</h1>
        {query.data && <span className="faint">{counted(total, 'application')}</span>}
        <Link className="page-aside" to="/dead-letters">
          Dead letters
        </Link>
      </div>
      <div className="filters" role="search">
        <SearchInput
          label="Search applications"
          placeholder={PLACEHOLDERS[search.by ?? 'name']}
          value={search.q ?? ''}
          onChange={(words) => change({ q: words || undefined })}
        />
        <select
          className="input"
          aria-label="Search by"
          value={search.by ?? 'name'}
          onChange={(event) =>
            change({
              by:
                event.target.value === 'name'
                  ? undefined
                  : (event.target.value as ApplicationsSearch['by']),
            })
          }
        >
          <option value="name">by name or id</option>
          <option value="dataset">by dataset</option>
          <option value="call_site">by call site</option>
          <option value="column">by column</option>
        </select>
        <DayInput
          label="Began on or after"
          value={search.since}
          onChange={(since) => change({ since })}
        />
        <DayInput
          label="Began on or before"
          value={search.until}
          onChange={(until) => change({ until })}
        />
        <select
          className="input"
          aria-label="Status"
          value={search.status ?? ''}
          onChange={(event) =>
            change({ status: (event.target.value || undefined) as ApplicationsSearch['status'] })
          }
        >
          <option value="">any status</option>
          <option value="running">running</option>
          <option value="ok">ok</option>
          <option value="failed">failed</option>
          <option value="abandoned">abandoned</option>
          <option value="damaged">damaged</option>
        </select>
        <select
          className="input"
          aria-label="Verdict"
          value={search.complete ?? ''}
          onChange={(event) =>
            change({
              complete: (event.target.value || undefined) as ApplicationsSearch['complete'],
            })
          }
        >
          <option value="">any verdict</option>
          <option value="yes">complete</option>
          <option value="no">incomplete</option>
        </select>
      </div>
      {first !== undefined && <Searched page={first} />}
      {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Loading what="applications" />}
      {query.data && apps.length === 0 && (filtered ? <NoMatch /> : <NoApplications />)}
      {apps.length > 0 && <ApplicationsTable apps={apps} />}
      {query.hasNextPage && (
        <p className="more">
          <button
            type="button"
            className="button"
            disabled={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {query.isFetchingNextPage ? 'Loading…' : 'Show more'}
          </button>{' '}
          <span className="faint">
            {count(apps.length)} of {count(total)}
          </span>
        </p>
      )}
    </main>
  );
}

interface DayProps {
  label: string;
  value: string | undefined;
  onChange: (day: string | undefined) => void;
}

/** A day, with its name beside it: an empty one looks like any other. */
function DayInput({ label, value, onChange }: DayProps) {
  return (
    <label className="filter-day">
      <span>{label}</span>
      <input
        type="date"
        className="input"
        value={value ?? ''}
        onChange={(event) => onChange(event.target.value || undefined)}
      />
    </label>
  );
}

/** What a search has not seen. */
function Searched({ page }: { page: AppPage }) {
  const parts: string[] = [];
  if (page.searched < page.searched_of) {
    parts.push(
      `The latest ${count(page.searched)} of ${counted(page.searched_of, 'application')} were searched.`,
    );
  }
  if (page.withheld > 0) {
    parts.push(`${counted(page.withheld, 'application')} could not be searched.`);
  }
  return parts.length > 0 && <p className="notice notice-warn">{parts.join(' ')}</p>;
}

function NoApplications() {
  const { data: me } = useQuery(meQuery());
  if (me === undefined) return null;
  const command = runCommand(me.store);
  return (
    <Empty title="No application yet.">
      <p>
        Run a PySpark job with its lineage captured, in a terminal. It needs no change, and shows up
        here by itself:
      </p>
      <pre className="command">{command}</pre>
      <p>
        <CopyButton text={command}>Copy the command</CopyButton>
      </p>
      <p className="faint">
        {me.store === null || me.store === undefined ? (
          <>If one has run already, this server may look at another store: see LINEAGE_STORE.</>
        ) : (
          <>
            If one has run already, its lineage is in another store than <code>{me.store}</code>:
            start <code>lineage ui</code> in the folder that it ran in, or with <code>--store</code>
            . <code>lineage doctor</code> says what this machine lacks to run one.
          </>
        )}
      </p>
    </Empty>
  );
}

function NoMatch() {
  return (
    <Empty title="No application matches.">
      <p>Take a part of its name or id, or clear the filters.</p>
    </Empty>
  );
}
