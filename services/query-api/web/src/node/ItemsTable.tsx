import { createColumnHelper, tableFeatures, useTable } from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';

import type { Item } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { MarkedText } from '../components/MarkedText';
import { Place } from '../components/Place';
import type { Columns } from '../lib/columns';
import { excerpt } from '../lib/highlight';

const ROW_HEIGHT = 30;
/** Letters that a line shows in any case. */
const ROOM = 56;
/** So many rows before the end of those that are there, the next ones are asked for. */
const AHEAD = 20;
/** Rows that say how wide columns are, and how many letters these have at the least and at the most. */
const SAMPLE = 50;
const [NARROWEST, WIDEST] = [4, 32];

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
  /** What texts are shown as; null: as they are. */
  columns?: Columns | null;
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
  const named = props.columns ?? null;
  const template = useMemo(
    () => templateOf(named, items, onToggle !== undefined),
    [named, items, onToggle],
  );
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const columns = useMemo(
    () =>
      helper.columns([
        helper.accessor((item) => item.location ?? item.address, {
          id: 'place',
          header: 'Place',
          cell: ({ getValue }) => <Place place={shortPlace(getValue())} title={getValue()} />,
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
      data-columns={named?.names.length}
    >
      <div role="presentation" className="items-scroller" ref={scroller}>
        <div role="presentation" className="items-inner">
          <div role="rowgroup" className="items-heads">
            {table.getHeaderGroups().map((group) => (
              <div
                key={group.id}
                role="row"
                className="items-head"
                aria-rowindex={1}
                style={template}
              >
                {onToggle && (
                  <span role="columnheader">
                    <span className="hidden">Selected</span>
                  </span>
                )}
                {group.headers.map((header) =>
                  named !== null && header.column.id === 'text' ? (
                    named.names.map((name) => (
                      <span
                        key={name}
                        role="columnheader"
                        className="items-name"
                        title={`${name}: ${named.origin}`}
                      >
                        {name}
                      </span>
                    ))
                  ) : (
                    <span
                      key={header.id}
                      role="columnheader"
                      className={header.column.id === 'place' ? 'items-place' : undefined}
                    >
                      <table.FlexRender header={header} />
                    </span>
                  ),
                )}
              </div>
            ))}
          </div>
          <div role="rowgroup" className="items-all" style={{ height: virtualizer.getTotalSize() }}>
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
                  style={{
                    ...template,
                    transform: `translateY(${place.start}px)`,
                    height: ROW_HEIGHT,
                  }}
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
                  {row.getAllCells().map((cell) => {
                    const values =
                      cell.column.id === 'text' && named !== null && item.text !== null
                        ? named.valuesOf(item.text)
                        : null;
                    if (values !== null) {
                      return values.map((value, index) => (
                        <Value
                          key={`${cell.id} ${index}`}
                          value={value}
                          item={index === 0 ? item : undefined}
                          search={search}
                          shared={shared}
                        />
                      ));
                    }
                    return (
                      <span
                        key={cell.id}
                        role="gridcell"
                        className={`items-${cell.column.id}`}
                        aria-colspan={cell.column.id === 'text' ? named?.names.length : undefined}
                        style={
                          cell.column.id === 'text' && named !== null
                            ? { gridColumn: `span ${named.names.length}` }
                            : undefined
                        }
                      >
                        <table.FlexRender cell={cell} />
                      </span>
                    );
                  })}
                  <span role="gridcell" className="items-actions">
                    <Actions actions={actions} item={item} reachable={isActive} />
                  </span>
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

function Actions(props: { actions: ItemAction[]; item: Item; reachable: boolean }) {
  return (
    <>
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
    </>
  );
}

interface ValueProps extends Pick<Props, 'search' | 'shared'> {
  value: string | null;
  /** Of the first value of a row: the row, which may have to be marked. */
  item: Item | undefined;
}

function Value({ value, item, search, shared }: ValueProps) {
  return (
    <span role="gridcell" className="items-value" title={value ?? 'NULL'}>
      <AsItIsNow of={item} />
      {value === null ? (
        <span className="faint">NULL</span>
      ) : (
        <MarkedText text={excerpt(value, search, ROOM)} search={search} shared={shared} />
      )}
    </span>
  );
}

/** As wide as the first rows ask for: columns of rows that come later keep their places. */
function templateOf(named: Columns | null, items: readonly Item[], selectable: boolean) {
  if (named === null) return undefined;
  const widths = named.names.map((name) => name.length);
  for (const { text } of items.slice(0, SAMPLE)) {
    const values = text === null ? null : named.valuesOf(text);
    values?.forEach((value, index) => {
      widths[index] = Math.max(widths[index] ?? 0, (value ?? 'NULL').length);
    });
  }
  const columns = widths.map((width) => `${Math.min(Math.max(width, NARROWEST), WIDEST) + 1}ch`);
  const first = selectable ? '18px ' : '';
  return { gridTemplateColumns: `${first}22ch ${columns.join(' ')} minmax(0, 1fr)` };
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
