import { memo } from 'react';

import { parts } from '../lib/highlight';

interface Props {
  text: string;
  search: string;
  shared: ReadonlySet<string>;
}

/** A row's text with what was searched for, and what it shares with the start of a trace, marked. */
export const MarkedText = memo(function MarkedText({ text, search, shared }: Props) {
  return parts(text, search, shared).map((part, index) =>
    part.mark === null ? (
      part.text
    ) : (
      <mark key={index} className={`mark-${part.mark}`}>
        {part.text}
      </mark>
    ),
  );
});
