import { useMutation, useQueryClient } from '@tanstack/react-query';

import { startTrace } from '../api/lineage';
import { traceQuery } from '../api/queries';
import type { Trace, TraceRequest } from '../api/types';

/** Asks for a trace; its answer is kept, so that the page that shows it has it at once. */
export function useStartTrace(app: string, onTrace: (trace: Trace) => void) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (request: TraceRequest) => startTrace(app, request),
    onSuccess: (trace) => {
      cache.setQueryData(traceQuery(trace.trace).queryKey, trace);
      onTrace(trace);
    },
  });
}

export type StartTrace = ReturnType<typeof useStartTrace>;
