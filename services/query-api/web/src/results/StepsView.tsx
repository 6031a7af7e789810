import { useState, type ReactNode } from 'react';

import { counted } from '../lib/format';
import { Notes } from '../trace/TraceNotes';
import { RowsList } from './RowsList';
import type { Step, StepsResult } from './reading';

/** What each operator gave on the way to a row, one step at a time, forward and back. */
export function StepsView({ result }: { result: StepsResult }): ReactNode {
  const { steps, stopped } = result;
  const last = steps.length - 1;
  const [at, setAt] = useState(stopped === null ? 0 : last);
  const step = steps[at];
  return (
    <>
      <p className="faint">
        to {result.place} of {result.app}
      </p>
      <Notes notes={result.notes} />
      <div className="step-bar">
        <div className="steps">
          <button
            type="button"
            className="button button-small"
            disabled={at === 0}
            onClick={() => setAt(at - 1)}
          >
            Back
          </button>
          <span role="status">
            step {at + 1} of {steps.length}
          </span>
          <button
            type="button"
            className="button button-small button-main"
            disabled={at === last}
            onClick={() => setAt(at + 1)}
          >
            Forward
          </button>
        </div>
      </div>
      <div className="sides">
        <section className="side" aria-label="Steps">
          <ol className="plain-rows" role="list">
            {steps.map((one, n) => (
              <li key={n}>
                <button
                  type="button"
                  className="button button-small button-quiet"
                  aria-current={n === at ? 'step' : undefined}
                  onClick={() => setAt(n)}
                >
                  {titleOf(one)}
                </button>
              </li>
            ))}
          </ol>
        </section>
        {step && (
          <section className="side" aria-label="Values">
            <h3>{titleOf(step)}</h3>
            <p className="faint">
              {step.about}
              {step.inputs.length > 0 && ` of ${step.inputs.join(' and ')}`}
            </p>
            {stopped?.step === step.number && stopped.fulfilling > 0 && (
              <p>
                stopped here: {stopped.fulfilling.toLocaleString('en')} of its records fulfil the
                condition
              </p>
            )}
            {step.refused !== null && <p>not known: {step.refused}</p>}
            <RowsList rows={step.rows} />
            {step.count > step.rows.length && (
              <p className="faint">
                and {counted(step.count - step.rows.length, 'value')} that the file does not list
              </p>
            )}
          </section>
        )}
      </div>
    </>
  );
}

const titleOf = ({ number, name }: Step) => `${number}. ${name}`;
