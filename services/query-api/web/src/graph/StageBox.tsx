import type { NodeProps } from '@xyflow/react';
import { memo } from 'react';

import type { StageElement } from './elements';

export const StageBox = memo(function StageBox({ data }: NodeProps<StageElement>) {
  return (
    <div className="stage">
      <span className="stage-title">
        {/^\d+$/.test(data.stage) ? `stage ${data.stage}` : data.stage}
      </span>
    </div>
  );
});
