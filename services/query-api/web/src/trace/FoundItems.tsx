import { useMemo, useState } from 'react';

import { traceItemsQuery } from '../api/queries';
import type { Direction, GraphNode, Item, Trace } from '../api/types';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { count } from '../lib/format';
import { ItemsTable, type ItemAction } from '../node/ItemsTable';
import { useColumns } from '../node/useColumns';
import { useItemPages } from '../node/useItemPages';
import { WholeRow } from '../node/WholeRow';

interface Props {
  trace: Trace;
  /** The node whose items are listed. */
  at: string;
  /** As it is drawn. */
  node: GraphNode | undefined;
  search: string;
  shared: ReadonlySet<string>;
  opened: string | null;
  onTrace: (direction: Direction, places: string[]) => void;
  onShowRow: (address: string) => void;
}

/** The items that a trace found in one node, page by page. */
export function FoundItems(props: Props) {
  const { trace, at, node, onTrace, onShowRow } = props;
  const pages = useItemPages(traceItemsQuery(trace.trace, at));
  const columns = useColumns(trace.app, node, pages.items);
  const [whole, setWhole] = useState<Item | null>(null);
  const isFrame = node === undefined ? trace.computed : isFrameKind(node.kind);
  const actions = useMemo<ItemAction[]>(
    () => [
      {
        label: 'Lines',
        title: 'Show it in its file',
        letter: 'l',
        run: (item) => onShowRow(item.address),
        available: (item) => item.location !== null && !isFrame,
      },
      {
        label: '← Back',
        title: 'Trace backward from here',
        letter: 'b',
        run: (item) => onTrace('backward', [placeOf(item, isFrame)]),
        available: (item) => isWayFrom(node?.kind, 'backward', item),
      },
      {
        label: 'Forward →',
        title: 'Trace forward from here',
        letter: 'f',
        run: (item) => onTrace('forward', [placeOf(item, isFrame)]),
        available: (item) => isWayFrom(node?.kind, 'forward', item),
      },
    ],
    [node?.kind, onTrace, onShowRow, isFrame],
  );
  const open = (item: Item) => {
    if (isFrame) setWhole(item);
    else if (item.location !== null) onShowRow(item.address);
    else onTrace(trace.direction, [item.address]);
  };
  return (
    <>
      {pages.error !== null && <ErrorNotice error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="items" />}
      {pages.first !== undefined && (
        <ItemsTable
          label={`Items of the trace in ${pages.first.label}`}
          items={pages.items}
          total={pages.first.count}
          search={props.search}
          shared={props.shared}
          columns={columns}
          actions={actions}
          onOpen={open}
          opened={whole?.address ?? props.opened}
          hasMore={pages.hasMore && !pages.paused}
          loadingMore={pages.loadingMore}
          onMore={pages.more}
        />
      )}
      {pages.first !== undefined && pages.hasMore && (
        <p className="faint">
          {count(pages.items.length)} of {count(pages.first.count)} loaded; scroll for more.
        </p>
      )}
      {whole !== null && <WholeRow item={whole} columns={columns} onClose={() => setWhole(null)} />}
    </>
  );
}

/** What names an item: rows of DataFrames have no address but the place in their file. */
const placeOf = (item: Item, isFrame: boolean) =>
  isFrame ? (item.location ?? item.address) : item.address;

/** Whether a node's rows are those of a DataFrame, which are in no list. */
export const isFrameKind = (kind: string | undefined) =>
  kind === 'frame' || kind === 'frame-source';

/** Whether a trace may go on from an item of a node of that kind. */
function isWayFrom(kind: string | undefined, direction: Direction, item: Item): boolean {
  if (isFrameKind(kind)) {
    return item.location !== null && (kind === 'frame') === (direction === 'backward');
  }
  return kind !== (direction === 'backward' ? 'source' : 'sink');
}
