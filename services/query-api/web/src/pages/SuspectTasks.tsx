import type { ReactNode } from 'react';

import type { SuspectTasks as FoundTasks } from '../api/types';
import { Empty } from '../components/Empty';
import { count, counted } from '../lib/format';
import { Notes } from '../trace/TraceNotes';
import { RankCell } from './RankCell';

/** Tasks on the way to the bad outputs, the most suspect first, with the reasons. */
export function SuspectTasks({ found }: { found: FoundTasks }): ReactNode {
  const more = found.tasks_total - found.tasks.length;
  return (
    <>
      <Notes notes={found.warnings} />
      {found.tasks.length === 0 && <Empty title="No task is suspect." />}
      {found.tasks.length > 0 && (
        <div className="table-frame">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Rank</th>
                <th scope="col">Task</th>
                <th scope="col">Why</th>
              </tr>
            </thead>
            <tbody>
              {found.tasks.map((task) => (
                <tr key={`${task.node} ${task.partition}`}>
                  <RankCell {...task} />
                  <td>
                    task {task.partition} of {task.name}{' '}
                    <span className="faint">(from {task.operators})</span>
                  </td>
                  <td>
                    <ul className="plain-rows">
                      {reasonsOf(task, found).map((reason) => (
                        <li key={reason}>{reason}</li>
                      ))}
                    </ul>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {more > 0 && <p className="faint">and {counted(more, 'more task')}</p>}
    </>
  );
}

/** In words and numbers: which outputs it is on the way to, and how it stands out among others. */
function reasonsOf(task: FoundTasks['tasks'][number], found: FoundTasks): string[] {
  const good = found.good.length;
  const bad = `${count(task.outputs)} of ${count(found.outputs)} bad`;
  const way = good > 0 ? `${bad} and ${count(task.good_outputs)} of ${count(good)} good` : bad;
  return [`on the way to ${way} outputs`, ...task.deviations.map(({ reason }) => reason)];
}
