/** The token of this browser tab, and whether the server asks for one. */

import { keep, kept, keptJson } from './kept';

const TOKEN = 'lineage.token';
const ISSUED = 'lineage.issued';

/** What an issuer gave beside the token. */
export interface Issued {
  refreshToken?: string;
}

export interface Session {
  token: string | null;
  /** The server asked for a token; `refused`: for another one than it was given. */
  asked: 'no' | 'yes' | 'refused';
  /** Where the token comes from an issuer, not from a person. */
  issued?: Issued;
  /** Why signing in at the issuer failed. */
  failure?: string;
}

let session: Session = {
  token: kept(TOKEN),
  asked: 'no',
  issued: keptJson(ISSUED) as Issued | undefined,
};
const listeners = new Set<() => void>();

export function currentSession(): Session {
  return session;
}

export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Takes a token, of an issuer where `issued` says what else it gave. */
export function signIn(token: string, issued?: Issued): void {
  change({ token, asked: 'no', issued });
}

export function signOut(): void {
  change({ token: null, asked: 'yes' });
}

/** Signing in at the issuer failed; whoever is signed in stays so. */
export function failSignIn(failure: string): void {
  if (session.token === null) change({ token: null, asked: 'yes', failure });
}

/** The server answered 401 to a request that carried `token`. */
export function askForToken(token: string | null): void {
  // An answer to a request from before the last login says nothing of the new token.
  if (token !== session.token || session.asked !== 'no') return;
  change({ token: null, asked: token === null ? 'yes' : 'refused' });
}

function change(next: Session): void {
  session = next;
  keep(TOKEN, next.token);
  keep(ISSUED, next.issued === undefined ? null : JSON.stringify(next.issued));
  for (const listener of listeners) listener();
}
