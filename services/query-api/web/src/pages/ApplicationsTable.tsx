import { createColumnHelper, tableFeatures, useTable } from '@tanstack/react-table';
import { Link } from '@tanstack/react-router';

import type { App } from '../api/types';
import { JobStatus, Verdict } from '../components/Verdict';
import { count, duration, elapsed, time } from '../lib/format';

const features = tableFeatures({});
const helper = createColumnHelper<typeof features, App>();

const columns = helper.columns([
  helper.display({
    id: 'application',
    header: 'Application',
    cell: ({ row }) => (
      <>
        <Link className="app-link" to="/apps/$app" params={{ app: row.original.app }}>
          {row.original.name || row.original.app}
        </Link>
        <span className="faint app-id">{row.original.app}</span>
      </>
    ),
  }),
  helper.display({
    id: 'verdict',
    header: 'Verdict',
    cell: ({ row }) => (
      <>
        <Verdict app={row.original} /> <JobStatus status={row.original.status} />
        {!row.original.complete && row.original.reasons[0] !== undefined && (
          <span className="reason">{row.original.reasons[0]}</span>
        )}
      </>
    ),
  }),
  helper.accessor('started_at', {
    header: 'Started',
    cell: ({ getValue }) => time(getValue()),
  }),
  helper.accessor((app) => (app.ended_at === null ? null : elapsed(app.started_at, app.ended_at)), {
    id: 'took',
    header: 'Took',
    cell: ({ getValue }) => {
      const seconds = getValue();
      return seconds === null ? <span className="faint">–</span> : duration(seconds);
    },
  }),
  helper.accessor('flows', { header: 'Flows', cell: ({ getValue }) => count(getValue()) }),
]);

/** What cells that say little by themselves are called where the head has no room. */
const TITLES: Record<string, string> = { started_at: 'Started', took: 'Took', flows: 'Flows' };

export function ApplicationsTable({ apps }: { apps: App[] }) {
  const table = useTable({ features, columns, data: apps, getRowId: (app) => app.app });
  return (
    <div className="table-frame">
      <table className="table">
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {group.headers.map((header) => (
                <th key={header.id} scope="col" data-column={header.column.id}>
                  <table.FlexRender header={header} />
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody>
          {table.getRowModel().rows.map((row) => (
            <tr key={row.id}>
              {row.getAllCells().map((cell) => (
                <td key={cell.id} data-column={cell.column.id} data-title={TITLES[cell.column.id]}>
                  <table.FlexRender cell={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
