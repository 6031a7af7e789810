import { useEffect, useRef } from 'react';

/**
 * Moves the focus to the heading of what is shown, once something else is: who asked for it gets there, by
 * keyboard, by screen reader and where it stands below what is in view. Walking in the graph beside it goes on.
 */
export function useFocusOnChange(shown: string) {
  const content = useRef<HTMLDivElement>(null);
  const before = useRef(shown);
  useEffect(() => {
    if (before.current === shown) return;
    before.current = shown;
    const panel = content.current?.closest('.panel') ?? null;
    const graph = panel?.parentElement?.querySelector('.graph') ?? null;
    const beside = panel !== null && graph !== null && isBeside(graph, panel);
    if (beside && graph.contains(document.activeElement)) return;
    const heading = content.current?.querySelector<HTMLElement>('h2');
    heading?.focus({ preventScroll: true });
    if (!beside) heading?.scrollIntoView({ block: 'start' });
  }, [shown]);
  return content;
}

const isBeside = (graph: Element, panel: Element) =>
  panel.getBoundingClientRect().left >= graph.getBoundingClientRect().right;
