const SOURCE = 'M2 3h7v10H2zM9 8h5M11.5 5.5 14 8l-2.5 2.5';
const SINK = 'M7 3h7v10H7zM1 8h6M4.5 5.5 7 8l-2.5 2.5';
const PATHS: Record<string, string> = {
  source: SOURCE,
  'frame-source': SOURCE,
  sink: SINK,
  frame: SINK,
  shuffle: 'M2 4h3l6 8h3M2 12h3l6-8h3',
  job: 'M3 3.5h10v9H3zM6.5 6.2 10 8l-3.5 1.8z',
  dataset: 'M3 4.5c0-1.4 10-1.4 10 0v7c0 1.4-10 1.4-10 0zM3 4.5c0 1.4 10 1.4 10 0',
  unknown: 'M5.5 6a2.5 2.5 0 1 1 3.4 2.3c-.6.3-.9.7-.9 1.4M8 12.4v.2',
};
const OPERATOR = 'M3 8h10M9.5 4.5 13 8l-3.5 3.5';

/** The kind of a node as a sign; what it means stands beside it. */
export function KindIcon({ kind }: { kind: string }) {
  return (
    <svg className="kind-icon" data-kind={kind} viewBox="0 0 16 16" aria-hidden>
      <path d={PATHS[kind] ?? OPERATOR} />
    </svg>
  );
}
