import type { ReactNode } from 'react';

import { count } from '../lib/format';

/** A place in a ranking: how many share it, and the score (null: without bound). */
export function RankCell(props: { rank: number; tied: number; score: number | null }): ReactNode {
  const { rank, tied, score } = props;
  return (
    <td className="suspect-outputs">
      <strong>{count(rank)}</strong>
      {tied > 1 && <span className="faint"> ({count(tied)} tied)</span>}
      <span className="faint"> score {score === null ? 'unbounded' : score.toFixed(2)}</span>
    </td>
  );
}
