import { useEffect, useState } from 'react';

interface Props {
  text: string | (() => string);
  children: string;
  className?: string;
}

/** Copies a text, and says that it did. */
export function CopyButton({ text, children, className = 'button' }: Props) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  useEffect(() => {
    if (state === 'idle') return;
    const timer = setTimeout(() => setState('idle'), 2000);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
      setState('copied');
    } catch {
      setState('failed');
    }
  };
  return (
    <button type="button" className={className} onClick={copy}>
      <span aria-live="polite">
        {state === 'idle' ? children : state === 'copied' ? 'Copied' : 'Can’t copy here'}
      </span>
    </button>
  );
}
