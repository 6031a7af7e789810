/**
 * Signing in at an issuer: authorization code with PKCE (RFC 7636, OpenID Connect Core 1.0, section 3.1).
 *
 * What is pending, and then the tokens, are kept by the tab alone. The issuer sends people back to one address, from
 * where they go on to the link that this tab kept: nothing in that address says where to.
 */

import * as oauth from 'oauth4webapi';

import type { OidcClient, SignInWays } from '../api/types';
import { keep, keptJson } from './kept';
import { currentSession, failSignIn, signIn, signOut } from './session';

/** Where issuers send people back to, once they are signed in or out. */
export const RETURN_PATH = '/sign-in';
const PENDING = 'lineage.sign-in';
const ANSWER_MS = 20_000;

interface Pending {
  state: string;
  nonce: string;
  verifier: string;
  /** Path, query and hash that the person was at. */
  link: string;
}

/** How the server lets people sign in. */
export async function signInWays(signal?: AbortSignal): Promise<SignInWays> {
  const limit = AbortSignal.timeout(ANSWER_MS);
  const response = await fetch('/v1/sign-in', {
    headers: { Accept: 'application/json' },
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
  });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return (await response.json()) as SignInWays;
}

/** Leaves for the issuer; throws where it can't be reached or used. */
export async function startSignIn(oidc: OidcClient): Promise<void> {
  if (!isSecureContext) throw new Error('Browsers sign in from pages of https alone.');
  const issuer = await issuerOf(oidc);
  const { pathname, search, hash } = location;
  const pending: Pending = {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    verifier: oauth.generateRandomCodeVerifier(),
    link: `${pathname}${search}${hash}`,
  };
  const url = endpoint(oidc, issuer.server.authorization_endpoint);
  if (url === null) throw new Error('The issuer names no page to sign in at.');
  const parameters = {
    response_type: 'code',
    client_id: oidc.client_id,
    redirect_uri: returnAddress(),
    scope: oidc.scopes,
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(pending.verifier),
    code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  keep(PENDING, JSON.stringify(pending));
  location.assign(url);
}

/** Takes what the issuer sent to this page, `RETURN_PATH`, and goes on to the link; before anything else is shown. */
export async function finishSignIn(): Promise<void> {
  const answer = new URLSearchParams(location.search);
  const pending = takePending();
  // The code leaves the address, and with it the history, before it is used.
  history.replaceState(null, '', `${location.origin}${ownLink(pending?.link)}`);
  // Signed out, the issuer says nothing.
  if (!answer.has('code') && !answer.has('error') && !answer.has('state')) return;
  if (pending === undefined) {
    failSignIn('It was not begun in this tab, or is over already.');
    return;
  }
  try {
    const { oidc } = await signInWays();
    if (oidc === null) throw new Error('the server signs in at no issuer');
    const { server, client, options } = await issuerOf(oidc);
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      oauth.None(),
      oauth.validateAuthResponse(server, client, answer, pending.state),
      returnAddress(),
      pending.verifier,
      options,
    );
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: pending.nonce,
      requireIdToken: true,
    });
    signIn(tokens.access_token, { refreshToken: tokens.refresh_token });
  } catch (error) {
    failSignIn(reasonOf(error));
  }
}

let renewing: { token: string; by: Promise<string | null> } | null = null;

/** A token in the place of one that the server refused; null: there is none, and people have to sign in again. */
export function renewed(token: string): Promise<string | null> {
  const session = currentSession();
  // Another request was quicker.
  if (session.token !== token) return Promise.resolve(session.token);
  const refreshToken = session.issued?.refreshToken;
  if (refreshToken === undefined) return Promise.resolve(null);
  // Requests that are refused together share it: issuers take a refresh token once.
  if (renewing?.token !== token) renewing = { token, by: renew(token, refreshToken) };
  return renewing.by;
}

async function renew(token: string, refreshToken: string): Promise<string | null> {
  try {
    const { oidc } = await signInWays();
    if (oidc === null) return null;
    const { server, client, options } = await issuerOf(oidc);
    const response = await oauth.refreshTokenGrantRequest(
      server,
      client,
      oauth.None(),
      refreshToken,
      options,
    );
    const tokens = await oauth.processRefreshTokenResponse(server, client, response);
    // Signed out, or in as somebody else, in the meantime.
    if (currentSession().token !== token) return currentSession().token;
    signIn(tokens.access_token, { refreshToken: tokens.refresh_token ?? refreshToken });
    return tokens.access_token;
  } catch {
    return null;
  }
}

/** Forgets the tokens; those of an issuer are given back, and its own session is ended where it has a page for that. */
export async function leave(): Promise<void> {
  const { issued } = currentSession();
  signOut();
  if (issued === undefined) return;
  try {
    const { oidc } = await signInWays();
    if (oidc === null) return;
    const { server, client, options } = await issuerOf(oidc);
    if (issued.refreshToken !== undefined && server.revocation_endpoint !== undefined) {
      await oauth.revocationRequest(server, client, oauth.None(), issued.refreshToken, options);
    }
    const url = endpoint(oidc, server.end_session_endpoint);
    if (url === null) return;
    // Without the ID token, which would stand in the address: the issuer asks the person instead.
    url.searchParams.set('client_id', oidc.client_id);
    url.searchParams.set('post_logout_redirect_uri', returnAddress());
    location.assign(url);
  } catch {
    // Here they are forgotten; at the issuer they end by themselves.
  }
}

async function issuerOf(oidc: OidcClient) {
  const at = new URL(oidc.issuer);
  const options = {
    signal: () => AbortSignal.timeout(ANSWER_MS),
    // The server names an issuer without TLS on loopback alone.
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    [oauth.allowInsecureRequests]: at.protocol === 'http:',
  };
  const server = await oauth.processDiscoveryResponse(
    at,
    await oauth.discoveryRequest(at, options),
  );
  return { server, client: { client_id: oidc.client_id }, options };
}

/** A page of the issuer, as safe to go to as the issuer itself; null: it has none. */
function endpoint(oidc: OidcClient, address: string | undefined): URL | null {
  if (address === undefined) return null;
  const url = new URL(address);
  if (url.protocol !== new URL(oidc.issuer).protocol) {
    throw new Error('The issuer names a page that is not safe to go to.');
  }
  return url;
}

const returnAddress = () => `${location.origin}${RETURN_PATH}`;

/** A link of this origin, whatever was kept: what follows the slash is no name of another server. */
const ownLink = (link: string | undefined) => (link?.startsWith('/') ? link : '/');

/** What is pending, once: what comes back a second time finds nothing. */
function takePending(): Pending | undefined {
  const pending = keptJson(PENDING) as Pending | undefined;
  keep(PENDING, null);
  return pending;
}

function reasonOf(error: unknown): string {
  // Of these alone the state was right, so that the issuer said it.
  if (
    error instanceof oauth.AuthorizationResponseError ||
    error instanceof oauth.ResponseBodyError
  ) {
    return `The issuer says: ${error.error}.`;
  }
  if (error instanceof TypeError || error instanceof DOMException) {
    return 'The issuer does not answer this page.';
  }
  return 'What came back is not what this tab asked for.';
}
