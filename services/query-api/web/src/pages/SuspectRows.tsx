import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import type { Suspects } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { Empty } from '../components/Empty';
import { MarkedText } from '../components/MarkedText';
import { count } from '../lib/format';
import { RankCell } from './RankCell';

const NONE: ReadonlySet<string> = new Set();

/** Rows of sources, the most suspect first, with what they went into. */
export function SuspectRows(props: {
  app: string;
  found: Suspects;
  search: string;
  /** Rows of DataFrames are in no list to be shown in. */
  areFrames: boolean;
}): ReactNode {
  const { app, found, search, areFrames } = props;
  if (found.items.length === 0) {
    return (
      <Empty
        title={
          found.total > 0
            ? 'No row went into a greater share of the bad outputs than of the good ones.'
            : 'No source row is behind these outputs.'
        }
      />
    );
  }
  const { good } = found;
  return (
    <div className="table-frame">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">Went into</th>
            <th scope="col">Place</th>
            <th scope="col">Text</th>
            <th scope="col">
              <span className="hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {found.items.map((item) => (
            <tr key={`${item.node} ${item.address}`}>
              <RankCell {...item} />
              <td className="suspect-outputs">
                <meter
                  min={0}
                  max={found.outputs}
                  value={item.outputs}
                  aria-label={`${item.outputs} of ${found.outputs} bad outputs`}
                />{' '}
                {count(item.outputs)} of {count(found.outputs)} bad
                {good > 0 && `, ${count(item.good_outputs)} of ${count(good)} good`}
              </td>
              <td className="start-place">{item.location ?? item.address}</td>
              <td className="suspect-text">
                <AsItIsNow of={item} />
                {item.text !== null && (
                  <MarkedText text={item.text} search={search} shared={NONE} />
                )}
              </td>
              <td>
                {!areFrames && (
                  <Link
                    to="/apps/$app"
                    params={{ app }}
                    search={{ node: item.node, row: item.address, q: search || undefined }}
                  >
                    in its file
                  </Link>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
