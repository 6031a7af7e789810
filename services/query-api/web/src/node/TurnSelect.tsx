interface Props {
  /** The nodes that a loop made, turn by turn, and what to say of each. */
  turns: { node: string; words: string }[];
  node: string;
  onChange: (node: string) => void;
}

/** Of a node that stands for the turns of a loop: which turn is looked at. */
export function TurnSelect({ turns, node, onChange }: Props) {
  if (turns.length < 2) return null;
  return (
    <select
      className="input"
      aria-label="Turn of the loop"
      value={node}
      onChange={(event) => onChange(event.target.value)}
    >
      {turns.map((turn) => (
        <option key={turn.node} value={turn.node}>
          {turn.words}
        </option>
      ))}
    </select>
  );
}
