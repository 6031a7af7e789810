/** What this browser tab keeps, until it is closed. */

export function kept(name: string): string | null {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

export function keptJson(name: string): unknown {
  try {
    return JSON.parse(kept(name) ?? '');
  } catch {
    return undefined;
  }
}

/** Keeps a text; null takes it away. */
export function keep(name: string, text: string | null): void {
  try {
    if (text === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, text);
  } catch {
    // Storage may be forbidden: what is kept then lasts until the page is loaded again.
  }
}
