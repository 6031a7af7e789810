import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { describe, expect, it, vi } from 'vitest';

import { Problem } from '../api/problem';
import { ErrorNotice } from './ErrorNotice';
import { SearchInput } from './SearchInput';
import { verdictWords } from './Verdict';

describe('an error', () => {
  it('says what went wrong, what to do, and its id', async () => {
    const retry = vi.fn();
    const problem = new Problem(404, 'No such application', 'x is none', 'See lineage apps', 'r-9');
    render(<ErrorNotice error={problem} onRetry={retry} />);
    const notice = screen.getByRole('alert');
    for (const words of ['No such application', 'x is none', 'See lineage apps', 'r-9']) {
      expect(notice).toHaveTextContent(words);
    }
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }));
    expect(retry).toHaveBeenCalledOnce();
  });

  it('without a hint still says what to do', () => {
    render(<ErrorNotice error={new Problem(403, 'Forbidden', '', null, null)} />);
    expect(screen.getByRole('alert')).toHaveTextContent('Ask whoever runs this server');
  });
});

describe('a verdict', () => {
  const app = { status: 'ok', complete: true, final: true, exact: true } as const;

  it.each([
    [app, 'complete'],
    [{ ...app, exact: false }, 'complete, not exact'],
    [{ ...app, answerable: true }, 'complete'],
    [{ ...app, answerable: null }, 'complete'],
    [{ ...app, answerable: false }, 'complete, not answerable'],
    [{ ...app, complete: false }, 'incomplete'],
    [{ ...app, complete: false, final: false }, 'still linking'],
    [{ ...app, status: 'running', complete: false, final: false }, 'running'],
    [{ ...app, status: 'failed', complete: false }, 'incomplete'],
  ] as const)('%o is %s', (judged, words) => {
    expect(verdictWords(judged).words).toBe(words);
  });
});

describe('a search field', () => {
  it('tells what was typed once, when the typing pauses', async () => {
    const change = vi.fn();
    render(<SearchInput label="Search" placeholder="" value="" onChange={change} />);
    await userEvent.type(screen.getByRole('searchbox'), 'abc');
    await vi.waitFor(() => expect(change).toHaveBeenCalledWith('abc'));
    expect(change).toHaveBeenCalledOnce();
  });

  it('follows the address of the page', () => {
    const change = vi.fn();
    const field = (value: string) => (
      <SearchInput label="Search" placeholder="" value={value} onChange={change} />
    );
    const { rerender } = render(field('a'));
    rerender(field('b'));
    expect(screen.getByRole('searchbox')).toHaveValue('b');
    expect(change).not.toHaveBeenCalled();
  });
});
