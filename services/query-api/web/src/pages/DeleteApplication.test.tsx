import { screen, waitFor, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { anApp } from '../testing/samples';
import { ANN, json, show, type Answer } from '../testing/pages';

const APP = { ...anApp('local-1'), nodes: 0, sources: [], sinks: [], unknown_parts: [] };

afterEach(() => vi.unstubAllGlobals());

/** A service with one application, which can be deleted unless it refuses. */
const service =
  (refusal?: Response): Answer =>
  ({ path, method }) => {
    if (method === 'DELETE') return refusal ?? new Response(null, { status: 204 });
    if (path === '/v1/applications/local-1') return json(APP);
    return path === '/v1/applications' ? json({ items: [], next: null, total: 0 }) : undefined;
  };

async function ask() {
  await userEvent.click(await screen.findByRole('button', { name: 'Delete…' }));
  return within(screen.getByRole('dialog', { name: 'Delete the lineage of flights?' }));
}

describe('deleting an application', () => {
  it('names it, asks, and goes back to the others', async () => {
    const { router, calls } = show('/apps/local-1', service());
    await userEvent.click((await ask()).getByRole('button', { name: 'Delete local-1' }));
    await waitFor(() => expect(router.state.location.pathname).toBe('/'));
    expect(calls).toContain('DELETE /v1/applications/local-1');
  });

  it('does nothing when it is kept', async () => {
    const { router, calls } = show('/apps/local-1', service());
    await userEvent.click((await ask()).getByRole('button', { name: 'Keep it' }));
    expect(screen.queryByRole('dialog')).toBeNull();
    expect(router.state.location.pathname).toBe('/apps/local-1');
    expect(calls.filter((call) => call.startsWith('DELETE'))).toEqual([]);
  });

  it('says why it was refused, and stays', async () => {
    const refusal = json(
      { title: 'Forbidden', detail: 'this caller may not delete applications' },
      403,
    );
    const { router } = show('/apps/local-1', service(refusal));
    await userEvent.click((await ask()).getByRole('button', { name: 'Delete local-1' }));
    expect(await screen.findByRole('alert')).toHaveTextContent(
      'this caller may not delete applications',
    );
    expect(router.state.location.pathname).toBe('/apps/local-1');
  });

  it('is offered to a reader who may delete', async () => {
    show('/apps/local-1', service(), { ...ANN, role: 'reader' });
    expect(await screen.findByRole('button', { name: 'Delete…' })).toBeVisible();
  });

  it('is not offered to an admin who may not', async () => {
    show('/apps/local-1', service(), { ...ANN, delete: false });
    await screen.findByText(/ann \(admin/);
    await screen.findByRole('heading', { name: 'flights' });
    expect(screen.queryByRole('button', { name: 'Delete…' })).toBeNull();
  });
});
