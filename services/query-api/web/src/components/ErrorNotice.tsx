import { Problem } from '../api/problem';

interface Props {
  error: Error;
  onRetry?: () => void;
  onClose?: () => void;
}

/** What went wrong, what to do, and by which id the server's log knows it. */
export function ErrorNotice({ error, onRetry, onClose }: Props) {
  const problem = error instanceof Problem ? error : null;
  const title = problem?.title ?? 'Something went wrong on this page';
  return (
    <div className="notice notice-error" role="alert">
      <p className="notice-title">{title}</p>
      {error.message !== title && <p>{error.message}</p>}
      <p>
        {problem === null ? 'Load the page again.' : (problem.hint ?? fallback(problem.status))}
      </p>
      {problem?.requestId != null && (
        <p className="notice-id">
          Request <code>{problem.requestId}</code>
        </p>
      )}
      {onRetry && (
        <button type="button" className="button" onClick={onRetry}>
          Try again
        </button>
      )}
      {onClose && (
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      )}
    </div>
  );
}

function fallback(status: number): string {
  if (status === 403) return 'Ask whoever runs this server for the right to see it.';
  if (status === 404) return 'It may have been deleted, or the address is not right.';
  if (status >= 500 || status === 0) return 'Try again in a moment.';
  return '';
}
