import { Link } from '@tanstack/react-router';
import { useMemo, useState } from 'react';

import { nodeItemsQuery } from '../api/queries';
import type { Direction, GraphNode, Item, NodeColumns } from '../api/types';
import { Problem } from '../api/problem';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { SparkWait } from '../components/SparkWait';
import { jsonColumns } from '../lib/columns';
import { count } from '../lib/format';
import { ItemsTable, type ItemAction } from './ItemsTable';
import { useItemPages } from './useItemPages';
import { WholeRow } from './WholeRow';

const NO_WORDS: ReadonlySet<string> = new Set();

interface Props {
  app: string;
  id: string;
  node: GraphNode;
  columns: NodeColumns['columns'];
  direction: Direction;
  onTrace: (direction: Direction, places: string[]) => void;
}

/** Rows of a DataFrame's files as the server's Spark reads them: a click on one traces it. */
export function FrameRows({ app, id, node, columns, direction, onTrace }: Props) {
  const pages = useItemPages(nodeItemsQuery(app, id, {}));
  const [whole, setWhole] = useState<Item | null>(null);
  const [selected, setSelected] = useState<string[]>([]);
  const isOutput = direction === 'backward';
  const toggle = (address: string) =>
    setSelected(
      selected.includes(address)
        ? selected.filter((one) => one !== address)
        : [...selected, address],
    );
  const named = useMemo(
    () =>
      jsonColumns(
        pages.items.map(({ text }) => text),
        columns.map(({ name }) => name),
      ),
    [pages.items, columns],
  );
  const trace = (item: Item) => onTrace(direction, [item.location ?? item.address]);
  const actions: ItemAction[] = [
    direction === 'backward'
      ? { label: '← Back', title: 'Trace backward: what it was made of', letter: 'b', run: trace }
      : { label: 'Forward →', title: 'Trace forward: what it went into', letter: 'f', run: trace },
    { label: 'Row', title: 'Show the whole row', letter: 'l', run: setWhole },
  ];
  if (pages.error instanceof Problem && pages.error.status === 422 && pages.items.length === 0) {
    return <p className="rows-note">These rows can’t be listed: {pages.error.message}.</p>;
  }
  return (
    <section className="frame-rows" aria-label="Rows">
      {pages.error !== null && <ErrorNotice error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <SparkWait what="the rows" />}
      {pages.first !== undefined && pages.items.length === 0 && !pages.hasMore && (
        <Empty title="There is no row.">
          <p>The files of this node are empty.</p>
        </Empty>
      )}
      {pages.items.length > 0 && (
        <>
          <p className="rows-found" role="status">
            {pages.hasMore
              ? `First ${count(pages.items.length)} rows; scroll for more.`
              : `All ${count(pages.items.length)} rows.`}{' '}
            A click traces a row {direction}.
          </p>
          {selected.length > 0 && (
            <div className="selection" role="toolbar" aria-label="Selected rows">
              <strong>{selected.length} selected</strong>
              <Link
                className="button button-small"
                to="/apps/$app/suspects"
                params={{ app }}
                search={{ place: placesOf(pages.items, selected), of: 'frames' }}
                title="What is behind these rows, and not behind those of them that are right"
              >
                Suspects
              </Link>
              <button
                type="button"
                className="button button-small button-quiet"
                onClick={() => setSelected([])}
              >
                Clear
              </button>
            </div>
          )}
          <ItemsTable
            key={id}
            label={`Rows of ${node.label}`}
            items={pages.items}
            total={pages.hasMore ? null : pages.items.length}
            search=""
            shared={NO_WORDS}
            columns={named}
            actions={actions}
            onOpen={trace}
            opened={whole?.address ?? null}
            selected={selected}
            onToggle={isOutput ? toggle : undefined}
            hasMore={pages.hasMore && !pages.paused}
            loadingMore={pages.loadingMore}
            onMore={pages.more}
          />
        </>
      )}
      {pages.items.length === 0 && pages.hasMore && (
        <button type="button" className="button" disabled={pages.loadingMore} onClick={pages.more}>
          Look into further files
        </button>
      )}
      {whole !== null && <WholeRow item={whole} columns={named} onClose={() => setWhole(null)} />}
    </section>
  );
}

/** What names the selected ones of some rows. */
const placesOf = (items: Item[], selected: string[]) =>
  items
    .filter(({ address }) => selected.includes(address))
    .map(({ location, address }) => location ?? address);
