import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';

import { deleteApplication } from '../api/lineage';
import { meQuery } from '../api/queries';
import type { App } from '../api/types';
import { Confirm } from '../components/Confirm';
import { ErrorNotice } from '../components/ErrorNotice';
import { counted } from '../lib/format';

/** Deletes the lineage of an application, after a question; for those who may. */
export function DeleteApplication({ app }: { app: Pick<App, 'app' | 'name' | 'flows'> }) {
  const [confirming, setConfirming] = useState(false);
  const me = useQuery(meQuery());
  const cache = useQueryClient();
  const navigate = useNavigate();
  const deletion = useMutation({
    mutationFn: () => deleteApplication(app.app),
    onSuccess: async () => {
      // First away from its page, which would ask for what is gone.
      await navigate({ to: '/' });
      cache.removeQueries({ queryKey: ['application', app.app] });
      await cache.invalidateQueries({ queryKey: ['applications'] });
    },
  });
  if (me.data?.delete !== true) return null;
  const close = () => {
    setConfirming(false);
    deletion.reset();
  };
  return (
    <span>
      <button type="button" className="button button-small" onClick={() => setConfirming(true)}>
        Delete…
      </button>
      {confirming && (
        <Confirm
          title={`Delete the lineage of ${app.name || app.app}?`}
          doing={`Delete ${app.app}`}
          busy={deletion.isPending}
          onDo={() => deletion.mutate()}
          onClose={close}
        >
          <p>
            All that is stored of <code>{app.app}</code> goes: {counted(app.flows, 'flow')}, its
            graph and its traces. Nobody can bring it back, but by running the job again. The files
            that it read and wrote stay as they are.
          </p>
          {deletion.error && <ErrorNotice error={deletion.error} />}
        </Confirm>
      )}
    </span>
  );
}
