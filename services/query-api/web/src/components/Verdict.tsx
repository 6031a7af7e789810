import type { App, AppDetail } from '../api/types';

type Judged = Pick<App, 'status' | 'complete' | 'final' | 'exact'> &
  Partial<Pick<AppDetail, 'answerable'>>;

export interface VerdictWords {
  tone: 'good' | 'warn' | 'live';
  words: string;
}

/** The verdict in words: running, complete (answerable, exact or not), incomplete. */
export function verdictWords(app: Judged): VerdictWords {
  if (app.status === 'running') return { tone: 'live', words: 'running' };
  if (!app.complete && !app.final) return { tone: 'live', words: 'still linking' };
  if (!app.complete) return { tone: 'warn', words: 'incomplete' };
  if (app.answerable === false) return { tone: 'warn', words: 'complete, not answerable' };
  return { tone: 'good', words: app.exact ? 'complete' : 'complete, not exact' };
}

export function Verdict({ app }: { app: Judged }) {
  const { tone, words } = verdictWords(app);
  return (
    <span className="verdict" data-tone={tone}>
      {words}
    </span>
  );
}

/** How the job itself ended, where that is worth a word. */
export function JobStatus({ status }: Pick<App, 'status'>) {
  if (status === 'ok' || status === 'running') return null;
  return (
    <span className="verdict" data-tone="bad">
      job {status}
    </span>
  );
}
