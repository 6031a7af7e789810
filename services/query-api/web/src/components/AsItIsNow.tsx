import type { Bound } from '../api/types';

/** Marks a text that nothing binds to the row of then: it stands at that place now. */
export function AsItIsNow({ of }: { of: Bound | undefined }) {
  if (of?.binding !== 'now') return null;
  return (
    <span
      className="as-it-is-now"
      title="The file has changed: this text stands at that place now and may be another row's."
    >
      as it is now
    </span>
  );
}
