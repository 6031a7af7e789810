import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';

import { headerQuery } from '../api/queries';
import type { GraphNode, Item } from '../api/types';
import { csvColumns, isCsv, jsonColumns, type Columns } from '../lib/columns';

/**
 * What the texts of a node's rows are shown as: of a source of CSV by the first line of its file, as the
 * service shows that to whoever asks; of rows that are JSON objects by their keys. Null: as they are.
 */
export function useColumns(
  app: string,
  node: Pick<GraphNode, 'node' | 'kind' | 'path'> | undefined,
  items: readonly Pick<Item, 'text'>[],
): Columns | null {
  const readsCsv = node?.kind === 'source' && isCsv(node.path);
  const { data: header } = useQuery({
    ...headerQuery(app, node?.node ?? '', node?.path ?? ''),
    enabled: readsCsv,
  });
  return useMemo(() => {
    if (readsCsv) return header == null ? null : csvColumns(header);
    return jsonColumns(items.map(({ text }) => text));
  }, [readsCsv, header, items]);
}
