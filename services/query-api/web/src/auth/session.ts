/** The token of this browser tab, and whether the server asks for one. */

const KEY = 'lineage.token';

export interface Session {
  token: string | null;
  /** The server asked for a token; `refused`: for another one than it was given. */
  asked: 'no' | 'yes' | 'refused';
}

let session: Session = { token: stored(), asked: 'no' };
const listeners = new Set<() => void>();

export function currentSession(): Session {
  return session;
}

export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function signIn(token: string): void {
  store(token);
  change({ token, asked: 'no' });
}

export function signOut(): void {
  store(null);
  change({ token: null, asked: 'yes' });
}

/** The server answered 401 to a request that carried `token`. */
export function askForToken(token: string | null): void {
  // An answer to a request from before the last login says nothing of the new token.
  if (token !== session.token || session.asked !== 'no') return;
  store(null);
  change({ token: null, asked: token === null ? 'yes' : 'refused' });
}

function change(next: Session): void {
  session = next;
  for (const listener of listeners) listener();
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function store(token: string | null): void {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // Storage may be forbidden: the token then lasts until the page is loaded again.
  }
}
