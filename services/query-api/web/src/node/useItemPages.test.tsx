import { QueryClient, QueryClientProvider, infiniteQueryOptions } from '@tanstack/react-query';
import { act, renderHook, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { describe, expect, it } from 'vitest';

import type { ItemPage } from '../api/types';
import { anItem } from '../testing/samples';
import { emptyAtEnd, useItemPages } from './useItemPages';

const page = (rows: number, next: string | null): ItemPage => ({
  items: Array.from({ length: rows }, (_, index) => anItem(`a#${next ?? 'end'}#${index}`)),
  next,
});

/** Pages of so many rows each. */
function paging(...sizes: number[]) {
  const cache = new QueryClient();
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={cache}>{children}</QueryClientProvider>
  );
  const options = infiniteQueryOptions({
    queryKey: ['pages', sizes],
    queryFn: ({ pageParam }) => {
      const at = Number(pageParam ?? 0);
      return page(sizes[at] ?? 0, at + 1 < sizes.length ? String(at + 1) : null);
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });
  return renderHook(() => useItemPages(options), { wrapper }).result;
}

describe('rows page by page', () => {
  it('come when asked for, until there are no more', async () => {
    const pages = paging(3, 2);
    await waitFor(() => expect(pages.current.items).toHaveLength(3));
    expect(pages.current.hasMore).toBe(true);
    act(() => pages.current.more());
    await waitFor(() => expect(pages.current.items).toHaveLength(5));
    expect(pages.current.hasMore).toBe(false);
  });

  it('pause when many pages in a row hold nothing', async () => {
    const pages = paging(1, 0, 0, 0, 0, 0, 1);
    await waitFor(() => expect(pages.current.loading).toBe(false));
    for (let asked = 2; asked <= 6; asked += 1) {
      expect(pages.current.paused).toBe(false);
      act(() => pages.current.more());
      await waitFor(() => expect(pages.current.pages).toHaveLength(asked));
    }
    expect(pages.current.paused).toBe(true);
    act(() => pages.current.more());
    await waitFor(() => expect(pages.current.items).toHaveLength(2));
    expect(pages.current.paused).toBe(false);
  });
});

it('counts empty pages at the end', () => {
  expect(emptyAtEnd([])).toBe(0);
  expect(emptyAtEnd([page(0, '1'), page(2, '2'), page(0, '3')])).toBe(1);
  expect(emptyAtEnd([page(0, '1'), page(0, '2')])).toBe(2);
});
