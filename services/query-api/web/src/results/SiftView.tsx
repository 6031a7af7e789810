import type { ReactNode } from 'react';

import { Empty } from '../components/Empty';
import { count, counted } from '../lib/format';
import { Notes } from '../trace/TraceNotes';
import { RowsList } from './RowsList';
import type { SiftResult } from './reading';

/** The smallest set of rows that still fails, what comes of it, and what it took to find it. */
export function SiftView({ result }: { result: SiftResult }): ReactNode {
  const { rows, oneMinimal, stopped } = result;
  return (
    <>
      <p className="faint">
        {counted(rows.length, 'row')} of {count(result.witnesses)} that were searched, after{' '}
        {counted(result.runs, 'run')} on {counted(result.rowsRun, 'row')} together, in{' '}
        {result.seconds} s
      </p>
      <p>
        {oneMinimal
          ? 'Without any one of these rows the failure is gone.'
          : 'The best so far: it may not be the smallest set.'}
      </p>
      <Notes notes={stopped === null ? [] : [`The search was stopped: ${stopped}`]} />
      <div className="sides">
        <section className="side" aria-label="Rows that fail">
          <h3>Rows that fail</h3>
          {rows.length === 0 && <Empty title="No row is needed for the failure." />}
          <RowsList rows={rows} />
        </section>
        <section className="side" aria-label="What comes of them">
          <h3>What comes of them</h3>
          <RowsList rows={result.outcome.map((text) => ({ place: null, text }))} />
        </section>
      </div>
    </>
  );
}
