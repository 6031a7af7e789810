import { Handle, Position, type NodeProps } from '@xyflow/react';
import { memo } from 'react';

import { count, counted, shortCount } from '../lib/format';
import type { NodeRank } from '../trace/ranks';
import type { DisplayNode } from './display';
import { isLoop } from './display';
import type { OperatorElement } from './elements';
import { useGraphState } from './GraphContext';
import { nodeTitle } from './naming';
import { NodeButton } from './NodeButton';

export const OperatorNode = memo(function OperatorNode({ data }: NodeProps<OperatorElement>) {
  const { node } = data;
  const { traced, ranks, onUnfold } = useGraphState();
  const rank = ranks?.get(node.node);
  const taking = traced?.counts.get(node.node);
  const dimmed = traced !== null && !traced.onTheWay.has(node.node);
  return (
    <div
      className="operator"
      data-kind={node.kind}
      data-dimmed={dimmed || undefined}
      data-heat={rank?.heat}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <NodeButton
        node={node}
        hint={node.exact ? undefined : `Not exact: ${node.reason}`}
        more={
          <>
            {node.flows > 0 && `${shortCount(node.flows)} flows`}
            {!node.exact && <span className="operator-superset"> not exact</span>}
          </>
        }
        spoken={spoken(node, taking, rank)}
      />
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
      {rank !== undefined && (
        <span className="operator-rank" aria-hidden>
          {count(rank.rank)}
        </span>
      )}
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
});

/** In words what colour and place show. */
function spoken(node: DisplayNode, taking: number | undefined, rank: NodeRank | undefined): string {
  const trace = taking === undefined ? '' : `, ${counted(taking, 'item')} in this trace`;
  // Of rows of DataFrames only the query that traces them can tell.
  const exact = node.exact && !node.kind.startsWith('frame');
  const suspect = rank === undefined ? '' : `, suspect ${rank.what} of rank ${rank.rank}`;
  return `, node ${node.node}${exact ? ', exact' : ''}${trace}${suspect}`;
}
