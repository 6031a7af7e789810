import type { Trace } from '../api/types';

/** What limits an answer: it is never silently wrong. */
export function TraceNotes({ trace }: { trace: Trace }) {
  return <Notes notes={notesOf(trace)} />;
}

/** What is to be known of an answer, if anything. */
export function Notes({ notes }: { notes: string[] }) {
  if (notes.length === 0) return null;
  return (
    <div className="notice notice-warn">
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
    </div>
  );
}

export function notesOf(trace: Trace): string[] {
  const notes: string[] = [];
  if (!trace.exact) {
    const why = trace.reasons.length > 0 ? `: ${trace.reasons.join('; ')}` : '';
    notes.push(`Not exact${why}. It names more rows than were used, never fewer.`);
  }
  if (!trace.complete) notes.push('Incomplete: lineage is missing, so rows may be missing here.');
  if (trace.changed) {
    notes.push(
      'A file has changed since the job ran: texts marked "as it is now" may be of other rows.',
    );
  }
  return [...notes, ...trace.warnings];
}
