import {
  useInfiniteQuery,
  type InfiniteData,
  type UseInfiniteQueryOptions,
} from '@tanstack/react-query';
import { useMemo } from 'react';

import type { Item, ItemPage } from '../api/types';

/** So many pages without a row are asked for by themselves, then the reader decides. */
const PATIENCE = 5;

export interface ItemPages<P extends ItemPage> {
  pages: P[];
  items: Item[];
  first: P | undefined;
  error: Error | null;
  loading: boolean;
  loadingMore: boolean;
  /** There may be more rows. */
  hasMore: boolean;
  /** A long search found nothing lately: it goes on when asked to. */
  paused: boolean;
  more: () => void;
  retry: () => void;
}

/** Rows page by page, as far as they are looked at. */
export function useItemPages<P extends ItemPage, K extends readonly unknown[]>(
  options: UseInfiniteQueryOptions<P, Error, InfiniteData<P>, K, string | null>,
): ItemPages<P> {
  const query = useInfiniteQuery(options);
  const pages = useMemo(() => query.data?.pages ?? [], [query.data]);
  const items = useMemo(() => pages.flatMap((page) => page.items), [pages]);
  return {
    pages,
    items,
    first: pages[0],
    error: query.error,
    loading: query.isPending,
    loadingMore: query.isFetchingNextPage,
    hasMore: query.hasNextPage,
    paused: query.hasNextPage && emptyAtEnd(pages) >= PATIENCE,
    more: () => {
      if (!query.isFetchingNextPage && !query.isError) void query.fetchNextPage();
    },
    retry: () => void (query.data === undefined ? query.refetch() : query.fetchNextPage()),
  };
}

/** How many of the last pages hold no rows. */
export function emptyAtEnd(pages: readonly ItemPage[]): number {
  const last = pages.findLastIndex((page) => page.items.length > 0);
  return pages.length - 1 - last;
}
