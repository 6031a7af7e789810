import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

import { progressQuery } from '../api/queries';
import { counted, count, time } from '../lib/format';

/** How far capture, linking and writing have come, while something is still on its way. */
export function LiveProgress({ app }: { app: string }) {
  const { data } = useQuery(progressQuery(app));
  const cache = useQueryClient();
  const final = data?.final === true;
  useEffect(() => {
    if (final) void cache.invalidateQueries({ queryKey: ['application', app] });
  }, [final, app, cache]);
  if (data === undefined) return null;
  const { blocks_received: received, blocks_linked: linked } = data.link;
  return (
    <section className="live" aria-label="Progress">
      <span className="live-part">
        <span className="live-dot" aria-hidden /> Capture
        <strong>{counted(data.capture.tasks, 'task')}</strong>
      </span>
      <span className="live-part">
        Link
        <progress
          value={linked}
          max={Math.max(received, 1)}
          aria-label={`${linked} of ${received} blocks are linked`}
        />
        <strong>
          {count(linked)} of {counted(received, 'block')}
        </strong>
      </span>
      <span className="live-part">
        Write <strong>{counted(data.write.flows, 'flow')}</strong>
      </span>
      <span className="faint">
        as of {time(data.updated_at)}; what is linked can be traced already
      </span>
    </section>
  );
}
