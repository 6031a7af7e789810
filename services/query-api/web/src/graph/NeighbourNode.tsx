import { Handle, Position, type NodeProps } from '@xyflow/react';
import { memo } from 'react';

import { count, shortCount } from '../lib/format';
import type { OperatorElement } from './elements';
import { useGraphState, type GrowSide } from './GraphContext';
import { nodeTitle } from './naming';
import { NodeButton } from './NodeButton';

/** A job, a dataset or an item of triples, with what is beside it and not drawn. */
export const NeighbourNode = memo(function NeighbourNode({ data }: NodeProps<OperatorElement>) {
  const { node } = data;
  const { onGrow } = useGraphState();
  const title = nodeTitle(node);
  return (
    <div className="operator" data-kind={node.kind}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <NodeButton node={node} hint={node.what} more={node.description} spoken={`, ${node.kind}`} />
      {(['upstream', 'downstream'] as const).map((side) => {
        const more = node.more?.[side] ?? 0;
        return (
          more > 0 && (
            <button
              key={side}
              type="button"
              className="neighbour-more"
              data-side={side}
              title={wordsOf(node.kind, side)}
              onClick={() => onGrow(node.node, side)}
            >
              <span aria-hidden>+{shortCount(more)}</span>
              <span className="hidden">
                Show {count(more)} more {wordsOf(node.kind, side)} {title}
              </span>
            </button>
          )
        );
      })}
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
});

const WORDS: Record<string, Record<GrowSide, string>> = {
  job: { upstream: 'datasets read by', downstream: 'datasets written by' },
  dataset: { upstream: 'jobs that write', downstream: 'jobs that read' },
  item: { upstream: 'items that went into', downstream: 'items derived from' },
};

/** What lies on a side of a node. */
const wordsOf = (kind: string, side: GrowSide) => WORDS[kind]?.[side] ?? side;
