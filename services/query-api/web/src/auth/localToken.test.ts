import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { takeLocalToken } from './localToken';
import { currentSession, signIn, signOut } from './session';

/** Answers for another tab of the same origin. */
class Tab extends BroadcastChannel {
  readonly said: unknown[] = [];
  constructor() {
    super('lineage.local-token');
    this.onmessage = ({ data }) => this.said.push(data);
  }
}

describe('the token of the address', () => {
  let tab: Tab;
  beforeEach(() => {
    signOut();
    tab = new Tab();
  });
  afterEach(() => tab.close());

  it('is taken out of it and kept by the tab', () => {
    history.replaceState(null, '', '/apps/a%20b?x=1&token=of-the-address#end');
    takeLocalToken();
    expect(location.pathname + location.search + location.hash).toBe('/apps/a%20b?x=1#end');
    expect(currentSession().token).toBe('of-the-address');
    expect(document.cookie).toBe('');
    expect(localStorage.length).toBe(0);
  });

  it('is asked of other tabs where there is none, and shared with them', async () => {
    history.replaceState(null, '', '/');
    takeLocalToken();
    await expect.poll(() => tab.said).toContainEqual({ wanted: true });
    tab.postMessage({ token: 'of-another-tab' });
    await expect.poll(() => currentSession().token).toBe('of-another-tab');
    tab.postMessage({ wanted: true });
    await expect.poll(() => tab.said).toContainEqual({ token: 'of-another-tab' });
  });

  it('is not shared where an issuer gave it, and replaces none that is there', async () => {
    history.replaceState(null, '', '/');
    takeLocalToken();
    signIn('of-an-issuer', { refreshToken: 'r' });
    tab.postMessage({ token: 'of-another-tab' });
    tab.postMessage({ wanted: true });
    tab.postMessage({});
    await expect.poll(() => tab.said.length).toBeGreaterThanOrEqual(1);
    expect(currentSession().token).toBe('of-an-issuer');
    expect(JSON.stringify(tab.said)).not.toContain('of-an-issuer');
  });
});
