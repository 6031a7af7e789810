import { createColumnHelper, tableFeatures, useTable } from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';

import type { Item } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { MarkedText } from '../components/MarkedText';
import { excerpt } from '../lib/highlight';

const ROW_HEIGHT = 30;
/** Letters that a line shows in any case. */
const ROOM = 56;
/** So many rows before the end of those that are there, the next ones are asked for. */
const AHEAD = 20;

export interface ItemAction {
  label: string;
  title: string;
  /** A letter that does it from the keyboard. */
  letter: string;
  run: (item: Item) => void;
  available?: (item: Item) => boolean;
}

interface Props {
  label: string;
  items: Item[];
  /** Of all rows, also those that are not loaded; null: not known. */
  total: number | null;
  search: string;
  shared: ReadonlySet<string>;
  actions: ItemAction[];
  /** What a click on a row does, or Enter. */
  onOpen: (item: Item) => void;
  opened?: string | null;
  selected?: readonly string[];
  onToggle?: (address: string) => void;
  hasMore: boolean;
  loadingMore: boolean;
  onMore: () => void;
}

const features = tableFeatures({});
const helper = createColumnHelper<typeof features, Item>();
const NOTHING: readonly string[] = [];

/** Rows in a list of any length: only those in view are drawn, further ones are loaded on the way. */
export function ItemsTable(props: Props) {
  const { items, search, shared, actions, selected = NOTHING, onToggle, onOpen } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const columns = useMemo(
    () =>
      helper.columns([
        helper.accessor((item) => item.location ?? item.address, {
          id: 'place',
          header: 'Place',
          cell: ({ getValue }) => <span title={getValue()}>{shortPlace(getValue())}</span>,
        }),
        helper.accessor('text', {
          header: 'Text',
          cell: ({ getValue, row }) => (
            <>
              <AsItIsNow of={row.original} />
              <RowText text={getValue()} search={search} shared={shared} />
            </>
          ),
        }),
      ]),
    [search, shared],
  );
  const table = useTable({ features, columns, data: items });
  const rows = table.getRowModel().rows;
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  });
  const drawn = virtualizer.getVirtualItems();
  const lastDrawn = drawn.at(-1)?.index ?? -1;
  const { hasMore, loadingMore, onMore } = props;
  useEffect(() => {
    if (hasMore && !loadingMore && lastDrawn >= items.length - AHEAD) onMore();
    // `onMore` is another function each time; what matters is how far the list has come.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [hasMore, loadingMore, lastDrawn, items.length]);

  const moveTo = (index: number) => {
    const next = Math.min(Math.max(index, 0), items.length - 1);
    setActive(next);
    virtualizer.scrollToIndex(next);
    requestAnimationFrame(() => rowElement(scroller.current, next)?.focus());
  };
  const onKeyDown = (event: KeyboardEvent, index: number) => {
    const item = items[index];
    if (item === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 1, 1);
    const target = moves(event.key, index, page, items.length);
    const action = actions.find(({ letter }) => letter === event.key);
    if (target !== null) moveTo(target);
    else if (event.target !== event.currentTarget) return;
    else if (event.key === 'Enter') onOpen(item);
    else if (event.key === ' ' && onToggle) onToggle(item.address);
    else if (action && (action.available?.(item) ?? true)) action.run(item);
    else return;
    event.preventDefault();
  };

  return (
    <div
      className="items"
      role="grid"
      aria-label={props.label}
      aria-rowcount={props.total ?? -1}
      aria-multiselectable={onToggle ? true : undefined}
      data-selectable={onToggle ? true : undefined}
    >
      <div role="rowgroup">
        {table.getHeaderGroups().map((group) => (
          <div key={group.id} role="row" className="items-head" aria-rowindex={1}>
            {onToggle && (
              <span role="columnheader">
                <span className="hidden">Selected</span>
              </span>
            )}
            {group.headers.map((header) => (
              <span key={header.id} role="columnheader">
                <table.FlexRender header={header} />
              </span>
            ))}
          </div>
        ))}
      </div>
      <div role="rowgroup" className="items-scroller" ref={scroller}>
        <div
          role="presentation"
          className="items-all"
          style={{ height: virtualizer.getTotalSize() }}
        >
          {drawn.map((place) => {
            const row = rows[place.index];
            if (row === undefined) return null;
            const item = row.original;
            const isActive = place.index === Math.min(active, rows.length - 1);
            return (
              <div
                key={row.id}
                role="row"
                className="items-row"
                data-index={place.index}
                data-address={item.address}
                data-opened={props.opened === item.address || undefined}
                aria-rowindex={place.index + 2}
                aria-selected={onToggle ? selected.includes(item.address) : undefined}
                tabIndex={isActive ? 0 : -1}
                style={{ transform: `translateY(${place.start}px)`, height: ROW_HEIGHT }}
                onClick={() => {
                  setActive(place.index);
                  onOpen(item);
                }}
                onKeyDown={(event) => onKeyDown(event, place.index)}
              >
                {onToggle && (
                  <span role="gridcell" onClick={(event) => event.stopPropagation()}>
                    <input
                      type="checkbox"
                      aria-label={`Select ${item.location ?? item.address}`}
                      tabIndex={isActive ? 0 : -1}
                      checked={selected.includes(item.address)}
                      onChange={() => onToggle(item.address)}
                    />
                  </span>
                )}
                {row.getAllCells().map((cell) => (
                  <span key={cell.id} role="gridcell" className={`items-${cell.column.id}`}>
                    <table.FlexRender cell={cell} />
                    {cell.column.id === 'text' && (
                      <Actions actions={actions} item={item} reachable={isActive} />
                    )}
                  </span>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function Actions(props: { actions: ItemAction[]; item: Item; reachable: boolean }) {
  return (
    <span className="items-actions">
      {props.actions.map(({ label, title, letter, run, available }) =>
        available?.(props.item) === false ? null : (
          <button
            key={label}
            type="button"
            className="button button-small"
            title={`${title} (${letter})`}
            tabIndex={props.reachable ? 0 : -1}
            onClick={(event) => {
              event.stopPropagation();
              run(props.item);
            }}
          >
            {label}
          </button>
        ),
      )}
    </span>
  );
}

function RowText({
  text,
  search,
  shared,
}: { text: string | null } & Pick<Props, 'search' | 'shared'>) {
  if (text === null) return <span className="faint">no text</span>;
  return (
    <span title={text}>
      <MarkedText text={excerpt(text, search, ROOM)} search={search} shared={shared} />
    </span>
  );
}

/** The end of a place tells rows apart: the file's name and the line. */
export function shortPlace(place: string): string {
  const slash = place.lastIndexOf('/');
  return slash > 0 && slash < place.length - 1 ? place.slice(slash + 1) : place;
}

function moves(key: string, index: number, page: number, length: number): number | null {
  switch (key) {
    case 'ArrowDown':
      return index + 1;
    case 'ArrowUp':
      return index - 1;
    case 'PageDown':
      return index + page;
    case 'PageUp':
      return index - page;
    case 'Home':
      return 0;
    case 'End':
      return length - 1;
    default:
      return null;
  }
}

function rowElement(scroller: HTMLElement | null, index: number): HTMLElement | null {
  return scroller?.querySelector<HTMLElement>(`[data-index="${index}"]`) ?? null;
}
