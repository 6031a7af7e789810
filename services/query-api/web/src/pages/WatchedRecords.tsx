import { useEffect, useState, type ReactNode } from 'react';

import type { WatchableOperator, WatchAsked } from '../api/types';
import { watch } from '../api/watch';
import { ErrorNotice } from '../components/ErrorNotice';
import { count, counted, duration } from '../lib/format';
import { WatchedSources } from './WatchedSources';
import { WatchForm } from './WatchForm';
import {
  isAlert,
  NOTHING,
  rankedTasks,
  stateOf,
  withEvent,
  wordsOf,
  type Told,
  type ToldRecord,
} from './watching';

interface Props {
  app: string;
  asked: WatchAsked;
  operators: WatchableOperator[];
  onChange: (asked: WatchAsked) => void;
  onRemove: () => void;
}

/** One watch: the records that it finds, as they pass. */
export function WatchedRecords({ app, asked, operators, onChange, onRemove }: Props): ReactNode {
  const { told, error, again } = useWatch(app, asked);
  const [isChanging, setChanging] = useState(false);
  const isAlarmed = isAlert(asked) && (told.records.length > 0 || told.violations > 0);
  const words = `${nameOf(asked.node, operators)}: ${wordsOf(asked)}`;
  return (
    <section className="watch" aria-label={words}>
      <div className="watch-head">
        <h3>{words}</h3>
        {isAlarmed && (
          <span className="verdict" data-tone="bad">
            alert
          </span>
        )}
        <button type="button" className="button" onClick={() => setChanging(!isChanging)}>
          Change
        </button>
        <button type="button" className="button" onClick={onRemove}>
          Drop
        </button>
      </div>
      {isChanging && (
        <WatchForm operators={operators} asked={asked} action="Watch instead" onAsk={onChange} />
      )}
      <p role={isAlarmed ? 'alert' : 'status'}>
        {error === null ? stateOf(told, asked) : 'It is not watched any more.'}
      </p>
      {error !== null && <ErrorNotice error={error} onRetry={again} />}
      {told.notes.length > 0 && (
        <ul className="follow-notes">
          {told.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {asked.latency === true && told.tasks.length > 0 && <TasksTable app={app} told={told} />}
      {asked.latency !== true && told.records.length > 0 && <RecordsTable app={app} told={told} />}
    </section>
  );
}

function nameOf(node: string, operators: WatchableOperator[]): string {
  const found = operators.find((one) => one.node === node);
  return found === undefined ? node : `${found.name} (${found.node})`;
}

function useWatch(app: string, asked: WatchAsked) {
  const [told, setTold] = useState(NOTHING);
  const [error, setError] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      let current = NOTHING;
      try {
        while (!current.isOver && !stop.signal.aborted) {
          const { stream } = current;
          for await (const event of watch(app, asked, stop.signal)) {
            current = withEvent(current, event);
            setTold(current);
          }
          // It was cut off: what it did not tell is not known.
          if (current.stream === stream) throw new Error('The server ended the stream.');
        }
      } catch (problem) {
        if (!stop.signal.aborted)
          setError(problem instanceof Error ? problem : new Error(String(problem)));
      }
    })();
    return () => stop.abort();
  }, [app, asked, attempt]);
  const again = () => {
    setError(null);
    setTold(NOTHING);
    setAttempt(attempt + 1);
  };
  return { told, error, again };
}

function RecordsTable({ app, told }: { app: string; told: Told }) {
  return (
    <div className="table-frame">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Record</th>
            <th scope="col">Made from</th>
            <th scope="col">Partition</th>
          </tr>
        </thead>
        <tbody>
          {told.records.map((record) => (
            <tr key={`${record.stream}:${record.record}`}>
              <td className="suspect-text">
                {record.text ?? 'no value was kept'}
                {record.seconds !== undefined && <Taken record={record} seconds={record.seconds} />}
              </td>
              <td className="suspect-text">
                {record.found === null ? (
                  <span className="faint">not known yet</span>
                ) : (
                  <WatchedSources app={app} found={record.found} />
                )}
              </td>
              <td>
                {count(record.partition)}
                <span className="reason">{record.operator}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TasksTable({ app, told }: { app: string; told: Told }) {
  return (
    <div className="table-frame">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Partition</th>
            <th scope="col">Time</th>
            <th scope="col">Slowest records</th>
          </tr>
        </thead>
        <tbody>
          {rankedTasks(told).map(({ task, slowest }) => (
            <tr key={`${task.stream}:${task.task}`}>
              <td>
                {count(task.partition)}
                <span className="reason">{task.operator}</span>
              </td>
              <td>
                {duration(task.seconds)}
                <span className="reason">
                  {task.reason ?? `with ${counted(task.records, 'record')}`}
                  {!task.is_whole && '; it was watched in part'}
                </span>
                {task.reads.map((part) => (
                  <span className="reason" key={part}>
                    reads {part}
                  </span>
                ))}
              </td>
              <td className="suspect-text">
                {slowest.map((record) => (
                  <SlowRecord key={record.record} app={app} record={record} />
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function SlowRecord({ app, record }: { app: string; record: ToldRecord }) {
  return (
    <div>
      {record.text ?? 'no value was kept'}
      {record.seconds !== undefined && <Taken record={record} seconds={record.seconds} />}
      {record.found !== null && <WatchedSources app={app} found={record.found} />}
    </div>
  );
}

function Taken({ record, seconds }: { record: ToldRecord; seconds: number }) {
  return (
    <span className="reason">
      {duration(seconds)}
      {record.may_buffer === true &&
        '; not sure: its function may have worked on records that it got before'}
    </span>
  );
}
