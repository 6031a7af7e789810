import type { Columns } from '../lib/columns';

/** A whole row, a line for each of its columns. */
export function RowFields({ columns, text }: { columns: Columns | null; text: string | null }) {
  const values = text === null ? null : (columns?.valuesOf(text) ?? null);
  if (columns === null || values === null) return null;
  return (
    <dl className="row-fields" aria-label="Values of the row" tabIndex={0}>
      {columns.names.map((name, index) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{values[index] ?? <span className="faint">NULL</span>}</dd>
        </div>
      ))}
    </dl>
  );
}
