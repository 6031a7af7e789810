import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';

import { applicationQuery, watchableQuery } from '../api/queries';
import type { WatchAsked } from '../api/types';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { useTitle } from '../components/useTitle';
import { ApplicationHead } from './ApplicationHead';
import { WatchedRecords } from './WatchedRecords';
import { WatchForm } from './WatchForm';

const route = getRouteApi('/apps/$app/watch');
/** A browser keeps six connections to a server, and the rest of the page needs some. */
const WATCHES_MAX = 4;

interface Watch {
  key: number;
  asked: WatchAsked;
}

/** Records of a running job, as they pass: those that fulfil a condition, break one, or are slow. */
export function WatchPage(): ReactNode {
  const { app } = route.useParams();
  const [watches, setWatches] = useState<Watch[]>([]);
  const [next, setNext] = useState(0);
  useTitle('Watch');
  const detail = useQuery(applicationQuery(app));
  const watchable = useQuery(watchableQuery(app));
  const operators = watchable.data?.operators ?? [];
  const isFull = watches.length >= WATCHES_MAX;
  const isOpen = watchable.data?.refusal === null;
  const replace = (key: number, asked: WatchAsked) => {
    setWatches(watches.map((one) => (one.key === key ? { key: next, asked } : one)));
    setNext(next + 1);
  };
  return (
    <main className="page" id="main">
      {detail.data && <ApplicationHead app={detail.data} />}
      <div className="page-head">
        <h2>Watch</h2>
      </div>
      <p className="faint">
        Records of an operator as they pass, with the rows of sources that they were made from:
        those that fulfil a condition on <code>record</code>, break one, or are slow. The job goes
        on.
      </p>
      {watchable.error && (
        <ErrorNotice error={watchable.error} onRetry={() => void watchable.refetch()} />
      )}
      {typeof watchable.data?.refusal === 'string' && (
        <Empty title="This job can’t be watched.">
          <p>{watchable.data.refusal}</p>
        </Empty>
      )}
      {isOpen && operators.length === 0 && (
        <Empty title="The program has made no operator yet that can be watched." />
      )}
      {isOpen && operators.length > 0 && (
        <WatchForm
          operators={operators}
          action="Watch"
          disabled={isFull}
          onAsk={(asked) => {
            setWatches([{ key: next, asked }, ...watches]);
            setNext(next + 1);
          }}
        />
      )}
      {isFull && <p className="faint">{WATCHES_MAX} watches are open: drop one for another.</p>}
      {watches.map(({ key, asked }) => (
        <WatchedRecords
          key={key}
          app={app}
          asked={asked}
          operators={operators}
          onChange={(other) => replace(key, other)}
          onRemove={() => setWatches(watches.filter((one) => one.key !== key))}
        />
      ))}
    </main>
  );
}
