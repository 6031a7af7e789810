import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { allJobsQuery } from '../api/queries';
import type { AnswerGroup, Trace, TraceAnswer } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { MarkedText } from '../components/MarkedText';
import { Place } from '../components/Place';
import { SparkWait } from '../components/SparkWait';
import { placesOf } from '../lib/cli';
import { count, counted } from '../lib/format';
import { Notes } from './TraceNotes';

export const ITEMS_SHOWN = 20;
export const GROUPS_SHOWN = 100;
const NOT_QUERIED_SHOWN = 100;
const NO_WORDS: ReadonlySet<string> = new Set();

interface Props {
  trace: Trace;
  isOn: boolean;
  /** Where the trace starts, if at rows that other applications may have read, too. */
  sharedPlaces: string[] | null;
  /** Whether it starts at rows that its application read. */
  fromSource: boolean;
  /** Text that is marked in the rows. */
  search: string;
  onChange: (isOn: boolean) => void;
}

/** A switch beside a trace: what it finds where it goes on through the jobs before this one (forward: after it). */
export function AllJobs(props: Props) {
  const { trace, isOn, onChange } = props;
  const places = placesOf(trace);
  return (
    <section className="levels all-jobs" aria-label="Through all jobs">
      <label>
        <input
          type="checkbox"
          role="switch"
          checked={isOn && places !== null}
          disabled={places === null}
          onChange={(event) => onChange(event.target.checked)}
        />{' '}
        Through all jobs
      </label>
      {places === null && (
        <p className="faint">It starts at more rows than are named here: trace fewer of them.</p>
      )}
      {isOn && places !== null && <Answered {...props} places={places} />}
    </section>
  );
}

function Answered(props: Props & { places: string[] }) {
  const { trace, places, sharedPlaces } = props;
  const query = useQuery(allJobsQuery(trace, places, sharedPlaces, ITEMS_SHOWN));
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) {
    return <SparkWait what="the trace through all jobs" onCancel={() => props.onChange(false)} />;
  }
  const { answer, isShared } = query.data;
  const groups = answer.direction === 'backward' ? answer.sources : answer.sinks;
  const shown = groups.slice(0, GROUPS_SHOWN);
  const rows = groups.reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <p role="status">
        <strong>{counted(rows, 'row')}</strong> in {counted(groups.length, 'dataset')}, through{' '}
        {counted(answer.apps.length, 'application')}: {verdictOf(answer)}
      </p>
      {trace.direction === 'forward' && props.fromSource && !isShared && (
        <p className="faint">
          From {trace.app} on. Other jobs that read the same rows are not gone through here: open
          their traces.
        </p>
      )}
      <Notes notes={notesOf(answer)} />
      <NotQueried answer={answer} />
      {groups.length === 0 && <NothingFound answer={answer} />}
      {byApplication(shown).map(([app, ofApp]) => (
        <section key={app} aria-label={app}>
          <h3>
            <ApplicationLink app={app} />
          </h3>
          {ofApp.map((group, index) => (
            <Dataset key={index} group={group} search={props.search} />
          ))}
        </section>
      ))}
      <FirstOf shown={shown.length} total={groups.length} what="dataset" />
    </>
  );
}

/** Rows of one node of an application: those of a file, table or topic mostly. */
function Dataset({ group, search }: { group: AnswerGroup; search: string }) {
  const { app, node, name, path, what, items } = group;
  const title = path ?? (what || name);
  return (
    <section aria-label={title}>
      <h4>
        <Link to="/apps/$app" params={{ app }} search={{ node }}>
          {title}
        </Link>{' '}
        <span className="faint">
          {name !== title && `${name} · `}
          {counted(group.count, 'row')}
          {group.gone ? ' · file is gone' : group.changed && ' · file has changed'}
        </span>
      </h4>
      <ul className="start-rows" aria-label={`Rows of ${title}`}>
        {items.map((item, index) => (
          <li key={index}>
            <Place place={item.location ?? item.address} />
            <span className="start-text">
              <AsItIsNow of={item} />
              {item.text !== null && (
                <MarkedText text={item.text} search={search} shared={NO_WORDS} />
              )}
            </span>
          </li>
        ))}
      </ul>
      <FirstOf shown={items.length} total={group.count} what="row" />
    </section>
  );
}

/** Who takes part, and could not be queried. */
function NotQueried({ answer: { not_asked: missing } }: { answer: TraceAnswer }) {
  if (missing.length === 0) return null;
  const shown = missing.slice(0, NOT_QUERIED_SHOWN);
  return (
    <section aria-label="Not queried">
      <h3>Not queried</h3>
      <ul className="plain-rows">
        {shown.map(({ app, node, reason }, index) => (
          <li key={index}>
            <ApplicationLink app={app} />
            {node && ` (node ${node})`}: {reason}
          </li>
        ))}
      </ul>
      <FirstOf shown={shown.length} total={missing.length} what="gap" />
    </section>
  );
}

function NothingFound({ answer: { complete, direction } }: { answer: TraceAnswer }) {
  if (!complete) return <Empty title="No row was found, and some may be missing." />;
  return (
    <Empty
      title={
        direction === 'backward'
          ? 'No job made it of a row of a source.'
          : 'It did not go into any output of a job.'
      }
    />
  );
}

const ApplicationLink = ({ app }: { app: string }) => (
  <Link to="/apps/$app" params={{ app }}>
    {app}
  </Link>
);

function FirstOf({ shown, total, what }: { shown: number; total: number; what: string }) {
  if (shown >= total) return null;
  return (
    <p className="faint">
      {count(shown)} of {counted(total, what)}
    </p>
  );
}

function byApplication(groups: readonly AnswerGroup[]): [string, AnswerGroup[]][] {
  const found = new Map<string, AnswerGroup[]>();
  for (const group of groups) found.set(group.app, [...(found.get(group.app) ?? []), group]);
  return [...found];
}

function verdictOf({ exact, complete }: TraceAnswer): string {
  if (exact) return complete ? 'exact and complete' : 'exact, not complete';
  return complete ? 'complete, not exact' : 'neither exact nor complete';
}

/** What limits the answer. A reason names its application where there are several. */
function notesOf({ exact, complete, changed, reasons, warnings, not_asked }: TraceAnswer) {
  const notes = exact ? [] : reasons.map((reason) => `Not exact: ${reason}`);
  if (!complete) notes.push('Incomplete: lineage is missing, so rows may be missing here.');
  if (changed) notes.push('A file has changed since a job used it.');
  const listed = new Set(
    not_asked.map(
      ({ app, node, reason }) => `${node && `node ${node} of `}${app} is not queried: ${reason}`,
    ),
  );
  return [...notes, ...warnings.filter((warning) => !listed.has(warning))];
}
