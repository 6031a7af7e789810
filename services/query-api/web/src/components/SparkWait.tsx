import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';

import { sparkQuery } from '../api/queries';
import type { Spark } from '../api/types';
import { counted } from '../lib/format';

const ASKED_S = 1;

interface Props {
  /** What is waited for. */
  what: string;
  onCancel?: () => void;
}

/** Says how far Spark is with what a reader waits for, and lets them cancel it. */
export function SparkWait({ what, onCancel }: Props) {
  const seconds = useSeconds();
  // Most answers are there at once, and need no Spark.
  const spark = useQuery({ ...sparkQuery(), enabled: seconds >= ASKED_S });
  return (
    <div className="loading">
      <span className="spinner" aria-hidden />
      <span role="status">{waitWords(what, spark.data)}</span>
      <span className="faint" aria-hidden>
        {seconds} s
      </span>
      {onCancel && (
        <button type="button" className="button button-small" onClick={onCancel}>
          Cancel
        </button>
      )}
    </div>
  );
}

export function waitWords(what: string, spark: Spark | undefined): string {
  if (spark?.state === 'starting') return `Spark starts, which takes some seconds, for ${what}…`;
  if (spark?.state === 'ready' && spark.tasks > 0) {
    return `Spark computes ${what}: ${spark.tasks_done} of ${counted(spark.tasks, 'task')}…`;
  }
  return `Loading ${what}…`;
}

function useSeconds(): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((before) => before + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return seconds;
}
