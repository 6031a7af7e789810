import type { Item, Trace } from '../api/types';
import { Place } from '../components/Place';
import { count, counted } from '../lib/format';

const SHOWN = 100;

/** Which rows belong together: those that were joined into one row on the way. */
export function PairList({ trace }: { trace: Trace }) {
  const { pairs } = trace;
  if (pairs === null || pairs === undefined) return null;
  const { rows, unknown } = pairs;
  if (rows.length === 0 && unknown.length === 0) return null;
  const texts = textsOf(trace);
  return (
    <details className="pairs">
      <summary>
        {rows.length > 0
          ? `${counted(rows.length, 'combination')} of rows that were joined with each other`
          : 'Which rows were joined with each other is not known'}
      </summary>
      <ul aria-label="Rows that were joined with each other">
        {rows.slice(0, SHOWN).map((together) => (
          <li key={together.map(({ node, address }) => `${node} ${address}`).join()}>
            {together.map((row, index) => (
              <div key={index} className="pair-row">
                <span className="faint">{row.name}</span>{' '}
                <Place place={row.location ?? row.address} />
                <span className="pair-text">{texts.get(`${row.node} ${row.address}`)}</span>
              </div>
            ))}
          </li>
        ))}
      </ul>
      {rows.length > SHOWN && <p className="faint">and {count(rows.length - SHOWN)} more</p>}
      {unknown.map((reason) => (
        <p key={reason} className="faint">
          {rows.length > 0 ? 'There may be others' : 'Not known'}: {reason}.
        </p>
      ))}
    </details>
  );
}

/** Texts of the rows that the trace lists at once. */
function textsOf(trace: Trace): Map<string, string> {
  const texts = new Map<string, string>();
  const add = (node: string, { address, text }: Item) => {
    if (text !== null) texts.set(`${node} ${address}`, text);
  };
  for (const group of trace.groups) group.items.forEach((item) => add(group.node, item));
  return texts;
}
