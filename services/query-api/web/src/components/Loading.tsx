export function Loading({ what }: { what: string }) {
  return (
    <div className="loading" role="status">
      <span className="spinner" aria-hidden />
      Loading {what}…
    </div>
  );
}
