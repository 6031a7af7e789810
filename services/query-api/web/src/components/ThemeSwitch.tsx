import { useState } from 'react';

const KEY = 'lineage.theme';
type Theme = 'light' | 'dark';

/** Between light and dark; until it is used, the system decides. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(current);
  const other = theme === 'light' ? 'dark' : 'light';
  const change = () => {
    document.documentElement.dataset.theme = other;
    setTheme(other);
    try {
      localStorage.setItem(KEY, other);
    } catch {
      // Storage may be forbidden: the choice then lasts until the page is loaded again.
    }
  };
  return (
    <button type="button" className="button button-quiet" onClick={change}>
      {other === 'dark' ? 'Dark' : 'Light'} theme
    </button>
  );
}

function current(): Theme {
  const { theme } = document.documentElement.dataset;
  if (theme === 'light' || theme === 'dark') return theme;
  return window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}
