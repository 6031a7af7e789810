/**
 * The token of a server that one user runs on their own machine (`lineage ui`): it stands in the address that is printed.
 *
 * It is kept by the tab, as all tokens are, and no cookie holds it: cookies know no ports, so the server of another user
 * of the machine would be sent it. A new tab asks the tabs of the same origin that are open.
 */

import { currentSession, signIn } from './session';

const PARAMETER = 'token';
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];
const CHANNEL = 'lineage.local-token';

interface Said {
  wanted?: true;
  token?: string;
}

/** Takes a token out of the address and its history, and asks open tabs for one where there is none. */
export function takeLocalToken(): void {
  if (!LOOPBACK.includes(location.hostname)) return;
  const url = new URL(location.href);
  const token = url.searchParams.get(PARAMETER);
  if (token !== null) {
    url.searchParams.delete(PARAMETER);
    history.replaceState(history.state, '', `${url.pathname}${url.search}${url.hash}`);
    if (token !== '') signIn(token);
  }
  shareWithTabs();
}

function shareWithTabs(): void {
  if (typeof BroadcastChannel === 'undefined') return;
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Said>) => {
    const { token, issued } = currentSession();
    if (data.wanted === true) {
      // What an issuer gave is for one tab: it is renewed by who has it.
      if (token !== null && issued === undefined) channel.postMessage({ token } satisfies Said);
    } else if (typeof data.token === 'string' && token === null) {
      signIn(data.token);
    }
  };
  if (currentSession().token === null) channel.postMessage({ wanted: true } satisfies Said);
}
