import { useQuery } from '@tanstack/react-query';

import { cellValuesQuery } from '../api/queries';
import type { FoundCells } from '../api/types';
import { count } from '../lib/format';
import { coordinatesOf, firstPositions, rangesOf } from './planes';

const LISTED = 12;

/** How many cells there are of an array, the first of them, and their values where its file is still the one of then. */
export function CellList({ app, cells }: { app: string; cells: FoundCells }) {
  const { array } = cells;
  const positions = firstPositions(cells.ranges, LISTED);
  const values = useQuery(
    cellValuesQuery(
      app,
      array.id,
      rangesOf(positions),
      array.file !== null && positions.length > 0,
    ),
  );
  const texts = new Map(values.data?.values.map(({ position, text }) => [position, text]));
  const size = array.shape.reduce((product, length) => product * length, 1);
  return (
    <>
      <p>
        <strong>
          {cells.whole
            ? `All ${count(size)} cells`
            : `${count(cells.count)} of ${count(size)} cells`}
        </strong>
      </p>
      {positions.length > 0 && (
        <ul className="cell-list" aria-label={`Cells of ${array.name}`}>
          {positions.map((position) => (
            <li key={position.toString()}>
              <code>[{coordinatesOf(position, array.shape).join(',')}]</code>{' '}
              {texts.get(position.toString())}
            </li>
          ))}
        </ul>
      )}
      {cells.count > positions.length && (
        <p className="faint">and {count(cells.count - positions.length)} more</p>
      )}
    </>
  );
}
