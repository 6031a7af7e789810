import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';

import { startTrace } from '../api/lineage';
import { traceQuery } from '../api/queries';
import type { Trace, TraceRequest } from '../api/types';

/**
 * Asks for a trace; its answer is kept, so that the page that shows it has it at once. `cancel` lets go of the request: the
 * server ends its work when nobody waits for it.
 */
export function useStartTrace(app: string, onTrace: (trace: Trace) => void) {
  const cache = useQueryClient();
  const waiting = useRef(new AbortController());
  const start = useMutation({
    mutationFn: (request: TraceRequest) => {
      waiting.current.abort();
      waiting.current = new AbortController();
      return startTrace(app, request, waiting.current.signal);
    },
    onSuccess: (trace) => {
      cache.setQueryData(traceQuery(trace.trace).queryKey, trace);
      onTrace(trace);
    },
  });
  const cancel = () => {
    start.reset();
    waiting.current.abort();
  };
  return { ...start, cancel };
}

export type StartTrace = ReturnType<typeof useStartTrace>;
