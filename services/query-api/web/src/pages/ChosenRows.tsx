import type { ReactNode } from 'react';

interface Props {
  bad: string[];
  good: string[];
  onChoose: (bad: string[], good: string[]) => void;
}

/** The outputs that were chosen, each bad or good. One at least stays bad. */
export function ChosenRows({ bad, good, onChoose }: Props): ReactNode {
  const rows = [...new Set([...bad, ...good])].sort();
  const isBad = (row: string) => bad.includes(row);
  return (
    <ul className="plain-rows chosen-rows" aria-label="Chosen outputs">
      {rows.map((row) => (
        <li key={row}>
          <span className="segments" role="group" aria-label={row}>
            <button
              type="button"
              aria-pressed={isBad(row)}
              onClick={() =>
                !isBad(row) &&
                onChoose(
                  [...bad, row],
                  good.filter((one) => one !== row),
                )
              }
            >
              Bad
            </button>
            <button
              type="button"
              aria-pressed={!isBad(row)}
              disabled={isBad(row) && bad.length === 1}
              onClick={() =>
                isBad(row) &&
                onChoose(
                  bad.filter((one) => one !== row),
                  [...good, row],
                )
              }
            >
              Good
            </button>
          </span>{' '}
          <span className="start-place">{row}</span>
        </li>
      ))}
    </ul>
  );
}
