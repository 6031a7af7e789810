import { Handle, Position, type NodeProps } from '@xyflow/react';
import { memo } from 'react';

import { KindIcon } from '../components/KindIcon';
import { count, counted, shortCount } from '../lib/format';
import type { DisplayNode } from './display';
import { isLoop } from './display';
import type { OperatorElement } from './elements';
import { useGraphState } from './GraphContext';
import { nodeTitle, whereabouts } from './naming';
import { isArrow } from './walking';

export const OperatorNode = memo(function OperatorNode({ data }: NodeProps<OperatorElement>) {
  const { node } = data;
  const { selected, traced, onSelect, onUnfold, onWalk } = useGraphState();
  const taking = traced?.counts.get(node.node);
  const dimmed = traced !== null && !traced.onTheWay.has(node.node);
  return (
    <div className="operator" data-kind={node.kind} data-dimmed={dimmed || undefined}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <button
        type="button"
        className="operator-button"
        data-node={node.node}
        aria-pressed={selected === node.node}
        title={node.exact ? undefined : `Not exact: ${node.reason}`}
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
        <span className="operator-more">
          {node.flows > 0 && `${shortCount(node.flows)} flows`}
          {!node.exact && <span className="operator-superset"> not exact</span>}
        </span>
        <span className="hidden">{spoken(node, taking)}</span>
      </button>
      {isLoop(node) && (
        <button
          type="button"
          className="operator-loop"
          title={`Made ${node.members.length} times in a loop: show each turn`}
          onClick={() => onUnfold(node.node)}
        >
          ×{node.members.length}
          <span className="hidden"> turns of {nodeTitle(node)}: unfold</span>
        </button>
      )}
      {taking !== undefined && (
        <span className="operator-taking" aria-hidden>
          {taking >= 100_000 ? shortCount(taking) : count(taking)}
        </span>
      )}
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
});

/** In words what colour and place show. */
function spoken(node: DisplayNode, taking: number | undefined): string {
  const trace = taking === undefined ? '' : `, ${counted(taking, 'item')} in this trace`;
  // Of rows of DataFrames only the query that traces them can tell.
  const exact = node.exact && !node.kind.startsWith('frame');
  return `, node ${node.node}${exact ? ', exact' : ''}${trace}`;
}
