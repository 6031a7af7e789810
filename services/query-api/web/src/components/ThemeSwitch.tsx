import { chooseTheme, useTheme } from './theme';

/** Between light and dark; until it is used, the system decides. */
export function ThemeSwitch() {
  const other = useTheme() === 'light' ? 'dark' : 'light';
  return (
    <button type="button" className="button button-quiet" onClick={() => chooseTheme(other)}>
      {other === 'dark' ? 'Dark' : 'Light'} theme
    </button>
  );
}
