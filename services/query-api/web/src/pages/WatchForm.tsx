import { useState, type ReactNode } from 'react';

import type { WatchableOperator, WatchAsked } from '../api/types';

const KINDS = {
  condition: { words: 'Records that fulfil', example: 'record[1] > 100' },
  must: { words: 'Alert where a record breaks', example: 'record[1] > 0' },
  slower_than: { words: 'Alert where a record takes', example: '200ms' },
  latency: { words: 'Time of its tasks', example: '' },
} as const;
type Kind = keyof typeof KINDS;

const kindOf = (asked: WatchAsked | undefined): Kind =>
  (['must', 'slower_than', 'latency'] as const).find((kind) => asked?.[kind]) ?? 'condition';

/** What was typed for a kind: nothing is for the time of tasks. */
function textOf(asked: WatchAsked | undefined): string {
  const value = asked?.[kindOf(asked)];
  return typeof value === 'string' ? value : '';
}

interface Props {
  operators: WatchableOperator[];
  /** What is changed. */
  asked?: WatchAsked;
  action: string;
  disabled?: boolean;
  onAsk: (asked: WatchAsked) => void;
}

/** Asks for a node, and what its records are watched for. */
export function WatchForm({ operators, asked, action, disabled = false, onAsk }: Props): ReactNode {
  const [kind, setKind] = useState<Kind>(kindOf(asked));
  const [node, setNode] = useState(asked?.node ?? '');
  const [text, setText] = useState(textOf(asked));
  const listed = operators.map((one) => one.node);
  const chosen = node || (listed[0] ?? '');
  const label = ({ node: id, name, call_site: site }: WatchableOperator) =>
    `${name} (${id})${site ? ` at ${site}` : ''}`;
  return (
    <form
      className="follow-form watch-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (chosen === '') return;
        if (kind === 'latency') onAsk({ node: chosen, latency: true });
        else if (text.trim() !== '') onAsk({ node: chosen, [kind]: text.trim() });
      }}
    >
      <select
        className="input"
        aria-label="Operator"
        value={chosen}
        onChange={(event) => setNode(event.target.value)}
      >
        {operators.map((one) => (
          <option key={one.node} value={one.node}>
            {label(one)}
          </option>
        ))}
      </select>
      <select
        className="input"
        aria-label="What for"
        value={kind}
        onChange={(event) => setKind(event.target.value as Kind)}
      >
        {Object.entries(KINDS).map(([value, { words }]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
      <input
        className="input"
        aria-label="Condition"
        placeholder={KINDS[kind].example}
        disabled={kind === 'latency'}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <button type="submit" className="button" disabled={disabled}>
        {action}
      </button>
    </form>
  );
}
