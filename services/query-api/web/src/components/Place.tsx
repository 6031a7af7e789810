/** So many letters of a long place stay in view, whatever room there is. */
const TAIL = 16;

/** Where something stands. Its end tells it apart, so what has no room is left out before that. */
export function Place({ place, title = place }: { place: string; title?: string }) {
  // A pair of UTF-16 units is one letter.
  const letters = Array.from(place);
  return (
    <span className="place" title={title}>
      <span className="place-head">{letters.slice(0, -TAIL).join('')}</span>
      <span className="place-tail">{letters.slice(-TAIL).join('')}</span>
    </span>
  );
}
