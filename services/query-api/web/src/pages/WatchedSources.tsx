import { Link } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';

import type { Item, Trace } from '../api/types';
import type { SourcesFound, WatchedItem } from '../api/watch';
import { AsItIsNow } from '../components/AsItIsNow';
import { ErrorNotice } from '../components/ErrorNotice';
import { count } from '../lib/format';
import { ofPlaces } from '../trace/requests';
import { useStartTrace } from '../trace/useStartTrace';

const SOURCES_SHOWN = 10;

interface Props {
  app: string;
  found: SourcesFound;
}

/** The rows of sources that a watched record was made from. */
export function WatchedSources({ app, found }: Props): ReactNode {
  if (found.place !== undefined) return <OnDemand app={app} place={found.place} found={found} />;
  return (
    <>
      <Rows groups={found.sources} />
      {!found.exact && <span className="reason">not exact: {found.reasons.join('; ')}</span>}
    </>
  );
}

/** Those of a row of a DataFrame: they are computed when somebody asks, once its action has returned. */
function OnDemand({ app, place, found }: Props & { place: string }) {
  const [trace, setTrace] = useState<Trace | null>(null);
  const start = useStartTrace(app, setTrace);
  if (trace === null)
    return (
      <>
        <button
          type="button"
          className="button button-small"
          disabled={start.isPending}
          onClick={() => start.mutate(ofPlaces('backward', [place]))}
        >
          ← Its rows
        </button>
        {start.error !== null && <ErrorNotice error={start.error} />}
        <span className="reason">{found.reasons.join('; ')}</span>
      </>
    );
  return (
    <>
      <Rows groups={trace.groups} />
      {!trace.exact && <span className="reason">not exact: {trace.reasons.join('; ')}</span>}
      <Link to="/traces/$trace" params={{ trace: trace.trace }} target="_blank">
        The trace
      </Link>
    </>
  );
}

function Rows({ groups }: { groups: { count: number; items: (Item | WatchedItem)[] }[] }) {
  const shown = groups.flatMap((group) => group.items).slice(0, SOURCES_SHOWN);
  const hidden = groups.reduce((sum, group) => sum + group.count, 0) - shown.length;
  return (
    <>
      {shown.map((item) => (
        <div key={item.address}>
          <span className="start-place">{item.location ?? item.address}</span>
          {item.text !== null && (
            <span className="reason">
              <AsItIsNow of={item} /> {item.text}
            </span>
          )}
        </div>
      ))}
      {hidden > 0 && <span className="reason">and {count(hidden)} more rows</span>}
    </>
  );
}
