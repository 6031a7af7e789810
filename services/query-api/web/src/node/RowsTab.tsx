import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, type ReactNode } from 'react';

import { meQuery, nodeItemsQuery } from '../api/queries';
import type { Direction, GraphNode, Item, NodeItems } from '../api/types';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { SearchInput } from '../components/SearchInput';
import { count, counted } from '../lib/format';
import { ItemsTable, type ItemAction } from './ItemsTable';
import { SelectionBar } from './SelectionBar';
import { useColumns } from './useColumns';
import { useItemPages, type ItemPages } from './useItemPages';

const NO_WORDS: ReadonlySet<string> = new Set();
const PARTITIONS_LISTED = 500;

interface Props {
  app: string;
  id: string;
  node: GraphNode;
  search: string;
  partition: string | undefined;
  selected: string[];
  opened: string | null;
  onSearch: (words: string) => void;
  onPartition: (partition: string | undefined) => void;
  onSelected: (selected: string[]) => void;
  onTrace: (direction: Direction, places: string[]) => void;
  onTraceMatches: (direction: Direction) => void;
  onShowRow: (address: string) => void;
}

/** The rows (items) of one node, searched and selected. */
export function RowsTab(props: Props) {
  const { app, id, node, search, partition, selected, onTrace, onShowRow } = props;
  const pages = useItemPages(
    nodeItemsQuery(app, id, {
      search: search || undefined,
      partition: partition === undefined ? undefined : Number(partition),
    }),
  );
  const columns = useColumns(app, node, pages.items);
  const me = useQuery(meQuery());
  const direction: Direction = node.kind === 'source' ? 'forward' : 'backward';
  const actions = useMemo<ItemAction[]>(
    () => [
      {
        label: '← Back',
        title: 'Trace backward: what it was made of',
        letter: 'b',
        run: (item) => onTrace('backward', [item.address]),
        available: () => node.kind !== 'source',
      },
      {
        label: 'Forward →',
        title: 'Trace forward: what it went into',
        letter: 'f',
        run: (item) => onTrace('forward', [item.address]),
        available: () => node.kind !== 'sink',
      },
      {
        label: 'Lines',
        title: 'Show it in its file',
        letter: 'l',
        run: (item) => onShowRow(item.address),
        available: (item) => item.location !== null,
      },
    ],
    [node.kind, onTrace, onShowRow],
  );
  const toggle = (address: string) =>
    props.onSelected(
      selected.includes(address)
        ? selected.filter((one) => one !== address)
        : [...selected, address],
    );

  if (!node.has_items) return <NoItems node={node} />;
  return (
    <div className="rows-tab">
      <div className="rows-tools">
        <SearchInput
          label="Search rows"
          placeholder="Search rows ( / )"
          value={search}
          onChange={props.onSearch}
        />
        {node.partitions !== null && node.partitions > 1 && (
          <select
            className="input"
            aria-label="Partition"
            value={partition ?? ''}
            onChange={(event) => props.onPartition(event.target.value || undefined)}
          >
            <option value="">all partitions</option>
            {Array.from({ length: Math.min(node.partitions, PARTITIONS_LISTED) }, (_, index) => (
              <option key={index} value={index}>
                partition {index}
              </option>
            ))}
          </select>
        )}
      </div>
      {selected.length > 0 && (
        <SelectionBar
          app={app}
          selected={selected}
          direction={direction}
          search={search}
          onTrace={(way) => onTrace(way, selected)}
          onClear={() => props.onSelected([])}
        />
      )}
      {me.data?.rows === false && (
        <p className="rows-note" role="note">
          You may trace rows, but not see what they say: whoever runs this server can give you the
          right to see rows.
        </p>
      )}
      {pages.error !== null && <ErrorNotice error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="rows" />}
      {pages.first !== undefined && (
        <>
          <FoundLine pages={pages} search={search}>
            {search !== '' && pages.items.length > 0 && (
              <button
                type="button"
                className="button button-small"
                onClick={() => props.onTraceMatches(direction)}
              >
                Trace all that match {direction}
              </button>
            )}
          </FoundLine>
          {pages.items.length > 0 ? (
            <ItemsTable
              key={`${id} ${search} ${partition ?? ''}`}
              label={`Rows of ${node.label}`}
              items={pages.items}
              total={search === '' ? pages.first.count : null}
              search={search}
              shared={NO_WORDS}
              columns={columns}
              actions={actions}
              opened={props.opened}
              onOpen={(item: Item) => onTrace(direction, [item.address])}
              selected={selected}
              onToggle={toggle}
              hasMore={pages.hasMore && !pages.paused}
              loadingMore={pages.loadingMore}
              onMore={pages.more}
            />
          ) : (
            <NothingFound pages={pages} search={search} />
          )}
        </>
      )}
    </div>
  );
}

function FoundLine(props: { pages: ItemPages<NodeItems>; search: string; children: ReactNode }) {
  const { pages, search } = props;
  const scanned = pages.pages.reduce((sum, page) => sum + page.scanned, 0);
  const cut = pages.pages.reduce((sum, page) => sum + page.cut, 0);
  const unsearched = cut > 0 ? `, ${counted(cut, 'long row')} not searched to the end` : '';
  const found =
    search === ''
      ? counted(pages.first?.count ?? pages.items.length, 'row')
      : !pages.hasMore
        ? `${counted(pages.items.length, 'row')} found`
        : `${counted(pages.items.length, 'row')} found in the first ${count(scanned)}`;
  const words = found + unsearched;
  return (
    <div className="rows-found">
      <span role="status">{pages.loadingMore ? `${words}, going on…` : words}</span>
      {pages.paused && pages.items.length > 0 && (
        <button type="button" className="button button-small" onClick={pages.more}>
          Search on
        </button>
      )}
      {props.children}
    </div>
  );
}

function NothingFound({ pages, search }: { pages: ItemPages<NodeItems>; search: string }) {
  // The list loads on as it is scrolled; without a row there is none, so the search goes on here.
  if (pages.hasMore && !pages.paused) return <SearchOn pages={pages} />;
  if (pages.paused) {
    return (
      <Empty title={`Nothing with “${search}” so far.`}>
        <button type="button" className="button" onClick={pages.more}>
          Search on
        </button>
      </Empty>
    );
  }
  return search === '' ? (
    <Empty title="This node has no rows.">
      <p>No task has put any out, or those that did are not linked yet.</p>
    </Empty>
  ) : pages.pages.some((page) => page.cut > 0) ? (
    <Empty title={`No row holds “${search}” in what was searched.`}>
      <p>Some rows are too long to be searched to their end.</p>
    </Empty>
  ) : (
    <Empty title={`No row holds “${search}”.`}>
      <p>The search minds upper and lower case. Clear it to see all rows.</p>
    </Empty>
  );
}

function SearchOn({ pages }: { pages: ItemPages<NodeItems> }) {
  const { loadingMore, more } = pages;
  useEffect(() => {
    if (!loadingMore) more();
    // `more` is another function each time.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [loadingMore]);
  return <Loading what="more rows" />;
}

function NoItems({ node }: { node: GraphNode }) {
  return (
    <Empty title="This node keeps no rows of its own.">
      <p>
        A chain of operators is stored as one step, which is what makes capture cheap. Rows are kept
        at sources, shuffles and sinks; for those of <code>{node.name || node.op}</code> run the job
        in detailed mode:
      </p>
      <pre className="command">LINEAGE_DETAILED=true lineage run job.py</pre>
    </Empty>
  );
}
