import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { currentSession, signIn } from '../auth/session';
import { address, get } from './client';
import { Problem } from './problem';

const answers = vi.fn<typeof fetch>();

beforeEach(() => vi.stubGlobal('fetch', answers));
afterEach(() => {
  vi.unstubAllGlobals();
  answers.mockReset();
});

const problem = (status: number, fields: object) =>
  new Response(JSON.stringify(fields), {
    status,
    headers: { 'Content-Type': 'application/problem+json', 'X-Request-Id': 'r-0' },
  });

describe('addresses', () => {
  it('leave out what is not given', () => {
    expect(address('/applications', { search: '', limit: 50, cursor: null })).toBe(
      '/v1/applications?limit=50',
    );
    expect(address('/me')).toBe('/v1/me');
  });
});

describe('answers', () => {
  it('that are problems say what the server said', async () => {
    answers.mockResolvedValue(
      problem(404, { title: 'No such application', detail: 'x', hint: 'apps', request_id: 'r-1' }),
    );
    await expect(get('/applications/x')).rejects.toMatchObject({
      status: 404,
      title: 'No such application',
      hint: 'apps',
      requestId: 'r-1',
    });
  });

  it('of a proxy without a body are problems, too', async () => {
    answers.mockResolvedValue(new Response('<html>', { status: 502, statusText: 'Bad Gateway' }));
    await expect(get('/me')).rejects.toMatchObject({ status: 502, detail: 'Bad Gateway' });
  });

  it('that do not come say so', async () => {
    answers.mockRejectedValue(new TypeError('failed to fetch'));
    await expect(get('/me')).rejects.toBeInstanceOf(Problem);
    await expect(get('/me')).rejects.toMatchObject({ status: 0 });
  });
});

describe('a token', () => {
  it('is asked for, sent, kept for the tab, and forgotten when refused', async () => {
    answers.mockImplementation(() => Promise.resolve(problem(401, { title: 'Not logged in' })));
    await expect(get('/me')).rejects.toMatchObject({ status: 401 });
    expect(currentSession()).toEqual({ token: null, asked: 'yes' });

    signIn('secret');
    expect(sessionStorage.getItem('lineage.token')).toBe('secret');
    answers.mockImplementation(() => Promise.resolve(new Response('{}')));
    await get('/me');
    const headers = new Headers(answers.mock.lastCall?.[1]?.headers);
    expect(headers.get('Authorization')).toBe('Bearer secret');

    answers.mockImplementation(() => Promise.resolve(problem(401, { title: 'Not logged in' })));
    await expect(get('/me')).rejects.toMatchObject({ status: 401 });
    expect(currentSession()).toEqual({ token: null, asked: 'refused' });
    expect(sessionStorage.getItem('lineage.token')).toBeNull();
  });
});
