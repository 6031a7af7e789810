import { useSyncExternalStore } from 'react';

const KEY = 'lineage.theme';
const DARK = '(prefers-color-scheme: dark)';
export type Theme = 'light' | 'dark';

/** The theme that is shown: the reader's choice, or else the system's. */
export const useTheme = () => useSyncExternalStore(listen, shownTheme);

/** Shows another theme from now on, and in later visits. */
export function chooseTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage may be forbidden: the choice then lasts until the page is loaded again.
  }
}

function shownTheme(): Theme {
  const { theme } = document.documentElement.dataset;
  if (theme === 'light' || theme === 'dark') return theme;
  return window.matchMedia(DARK).matches ? 'dark' : 'light';
}

function listen(changed: () => void): () => void {
  const chosen = new MutationObserver(changed);
  chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  const system = window.matchMedia(DARK);
  system.addEventListener('change', changed);
  return () => {
    chosen.disconnect();
    system.removeEventListener('change', changed);
  };
}
