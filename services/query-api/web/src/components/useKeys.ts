import { useEffect, useRef } from 'react';

/** Keys of the whole page: `/` goes to the search field, Esc closes what is open. */
export function useKeys(onEscape: () => void): void {
  const latest = useRef(onEscape);
  useEffect(() => {
    latest.current = onEscape;
  });
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'Escape') latest.current();
      if (event.key === '/' && !isTyping(event.target)) {
        const fields = document.querySelectorAll<HTMLInputElement>('[data-search]');
        const field = [...fields].at(-1);
        if (field === undefined) return;
        event.preventDefault();
        field.focus();
        field.select();
      }
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.matches('input:not([type=checkbox]), textarea, select')
  );
}
