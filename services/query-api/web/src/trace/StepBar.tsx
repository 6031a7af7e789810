interface Props {
  /** How many steps the trace goes; null: all the way. */
  steps: number | null;
  canGoOn: boolean;
  busy: boolean;
  onSteps: (steps: number | null) => void;
}

/** All the way at once, or one step along the graph at a time. */
export function StepBar({ steps, canGoOn, busy, onSteps }: Props) {
  return (
    <div className="step-bar">
      <div className="segments" role="group" aria-label="How far">
        <button
          type="button"
          aria-pressed={steps === null}
          disabled={busy}
          onClick={() => steps !== null && onSteps(null)}
        >
          All the way
        </button>
        <button
          type="button"
          aria-pressed={steps !== null}
          disabled={busy}
          onClick={() => steps === null && onSteps(1)}
        >
          Step by step
        </button>
      </div>
      {steps !== null && (
        <div className="steps">
          <button
            type="button"
            className="button button-small"
            disabled={busy || steps <= 1}
            onClick={() => onSteps(steps - 1)}
          >
            Previous
          </button>
          <span>step {steps}</span>
          <button
            type="button"
            className="button button-small button-main"
            disabled={busy || !canGoOn}
            onClick={() => onSteps(steps + 1)}
          >
            Next step
          </button>
        </div>
      )}
    </div>
  );
}
