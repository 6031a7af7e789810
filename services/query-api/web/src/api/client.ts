import { renewed } from '../auth/oidc';
import { askForToken, currentSession } from '../auth/session';
import { Problem } from './problem';

export type Query = Record<string, string | number | boolean | null | undefined>;

const BASE = '/v1';

/** The path of a request; parameters that are not given are left out. */
export function address(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== '',
  );
  const parameters = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `${BASE}${path}${given.length > 0 ? `?${parameters.toString()}` : ''}`;
}

/** A response that is no error; throws a {@link Problem} for one that is. */
export async function send(url: string, init: RequestInit = {}): Promise<Response> {
  let { token } = currentSession();
  let response = await attempt(url, init, token);
  if (response.status === 401 && token !== null) {
    const next = await renewed(token);
    if (next !== null) response = await attempt(url, init, (token = next));
  }
  if (response.ok) return response;
  if (response.status === 401) askForToken(token);
  throw await Problem.of(response);
}

async function attempt(url: string, init: RequestInit, token: string | null): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token !== null) headers.set('Authorization', `Bearer ${token}`);
  try {
    return await fetch(url, { ...init, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw Problem.unreachable();
  }
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await send(address(path, query), {
    headers: { Accept: 'application/json' },
    signal,
  });
  return (await response.json()) as T;
}

export async function remove(path: string): Promise<void> {
  await send(address(path), { method: 'DELETE' });
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(address(path), {
    method: 'POST',
    headers: { Accept: 'application/json', 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  return (await response.json()) as T;
}
