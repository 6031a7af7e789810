import type { ReactNode } from 'react';

import { KindIcon } from '../components/KindIcon';
import type { DisplayNode } from './display';
import { useGraphState } from './GraphContext';
import { nodeTitle, whereabouts } from './naming';
import { isArrow } from './walking';

interface Props {
  node: DisplayNode;
  hint: string | undefined;
  more: ReactNode;
  /** What is read out after all that is shown. */
  spoken: string;
}

/** A node of a graph: selected by a click, left by the arrow keys. */
export function NodeButton({ node, hint, more, spoken }: Props): ReactNode {
  const { selected, onSelect, onWalk } = useGraphState();
  return (
    <button
      type="button"
      className="operator-button"
      data-node={node.node}
      aria-pressed={selected === node.node}
      title={hint}
      onClick={() => onSelect(node.node)}
      onKeyDown={(event) => {
        if (!isArrow(event.key)) return;
        event.preventDefault();
        onWalk(node.node, event.key);
      }}
    >
      <span className="operator-title">
        <KindIcon kind={node.kind} />
        <span className="operator-name">{nodeTitle(node)}</span>
      </span>
      <span className="operator-more">{whereabouts(node)}</span>
      <span className="operator-more">{more}</span>
      <span className="hidden">{spoken}</span>
    </button>
  );
}
