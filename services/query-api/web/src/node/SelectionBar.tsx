import { Link } from '@tanstack/react-router';

import type { Direction } from '../api/types';

interface Props {
  app: string;
  selected: string[];
  /** Which way rows that are compared are traced. */
  direction: Direction;
  search: string;
  onTrace: (direction: Direction) => void;
  onClear: () => void;
}

/** What can be done with the rows that were selected. */
export function SelectionBar({ app, selected, direction, search, onTrace, onClear }: Props) {
  const [left, right] = selected;
  return (
    <div className="selection" role="toolbar" aria-label="Selected rows">
      <strong>{selected.length} selected</strong>
      <button type="button" className="button button-small" onClick={() => onTrace('backward')}>
        ← Backward
      </button>
      <button type="button" className="button button-small" onClick={() => onTrace('forward')}>
        Forward →
      </button>
      {selected.length === 2 && (
        <Link
          className="button button-small"
          to="/apps/$app/compare"
          params={{ app }}
          search={{ left, right, direction }}
        >
          Compare
        </Link>
      )}
      {selected.length >= 1 && (
        <Link
          className="button button-small"
          to="/apps/$app/suspects"
          params={{ app }}
          search={{ place: selected, q: search || undefined }}
          title="What is behind these rows, and not behind those of them that are right"
        >
          Suspects
        </Link>
      )}
      <button type="button" className="button button-small button-quiet" onClick={onClear}>
        Clear
      </button>
    </div>
  );
}
