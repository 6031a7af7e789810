import { render, screen, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { csvColumns, jsonColumns } from '../lib/columns';
import { anItem } from '../testing/samples';
import { ItemsTable, shortPlace } from './ItemsTable';

const HEIGHT = 300;

beforeEach(() => {
  // There is no layout here: the list is as high as it says.
  vi.spyOn(Element.prototype, 'clientHeight', 'get').mockReturnValue(HEIGHT);
  vi.spyOn(Element.prototype, 'clientWidth', 'get').mockReturnValue(600);
});

const many = Array.from({ length: 1000 }, (_, index) =>
  anItem(`read#0#${index}`, { location: `data/in.txt:${index + 1}`, text: `row ${index + 1}` }),
);

function table(change: Partial<Parameters<typeof ItemsTable>[0]> = {}) {
  const calls = { onOpen: vi.fn(), onToggle: vi.fn(), onMore: vi.fn(), back: vi.fn() };
  render(
    <ItemsTable
      label="Rows"
      items={many}
      total={1_000_000}
      search="row 3"
      shared={new Set()}
      actions={[{ label: 'Back', title: 'Trace backward', letter: 'b', run: calls.back }]}
      selected={[]}
      hasMore
      loadingMore={false}
      {...calls}
      {...change}
    />,
  );
  return calls;
}

const rows = () => screen.getAllByRole('row').slice(1);
const row = (text: string) => {
  const found = rows().find((one) => one.dataset.address === text);
  if (found === undefined) throw new Error(`${text} is not drawn`);
  return found;
};

describe('a long list', () => {
  it('draws what is in view, and tells how many there are', () => {
    table();
    expect(rows().length).toBeGreaterThan(9);
    expect(rows().length).toBeLessThan(40);
    expect(screen.getByRole('grid')).toHaveAttribute('aria-rowcount', '1000000');
  });

  it('asks for more near its end only', () => {
    expect(table().onMore).not.toHaveBeenCalled();
  });

  it('asks for more when what is there nearly fits', () => {
    expect(table({ items: many.slice(0, 10) }).onMore).toHaveBeenCalled();
  });

  it('does not ask while it is answered, or when nothing follows', () => {
    expect(table({ items: many.slice(0, 10), loadingMore: true }).onMore).not.toHaveBeenCalled();
    expect(table({ items: many.slice(0, 10), hasMore: false }).onMore).not.toHaveBeenCalled();
  });

  it('marks what was searched for', () => {
    table();
    expect(within(row('read#0#2')).getByText('row 3', { selector: 'mark' })).toBeVisible();
  });
});

describe('a row', () => {
  it('opens by click, and its actions do not open it', async () => {
    const calls = table();
    await userEvent.click(within(row('read#0#1')).getByText('row 2'));
    expect(calls.onOpen).toHaveBeenCalledWith(many[1]);
    await userEvent.click(within(row('read#0#4')).getByRole('button', { name: 'Back' }));
    expect(calls.back).toHaveBeenCalledWith(many[4]);
    expect(calls.onOpen).toHaveBeenCalledOnce();
  });

  it('is selected by its box', async () => {
    const calls = table();
    await userEvent.click(within(row('read#0#1')).getByRole('checkbox'));
    expect(calls.onToggle).toHaveBeenCalledWith('read#0#1');
    expect(calls.onOpen).not.toHaveBeenCalled();
  });

  it('is reached and used by keys', async () => {
    const calls = table();
    row('read#0#0').focus();
    await userEvent.keyboard('{ArrowDown}');
    await vi.waitFor(() => expect(row('read#0#1')).toHaveFocus());
    await userEvent.keyboard('{Enter}');
    expect(calls.onOpen).toHaveBeenCalledWith(many[1]);
    await userEvent.keyboard(' ');
    expect(calls.onToggle).toHaveBeenCalledWith('read#0#1');
    await userEvent.keyboard('b');
    expect(calls.back).toHaveBeenCalledWith(many[1]);
  });
});

it('shortens places to what tells rows apart', () => {
  expect(shortPlace('data/2013/flights.csv:7')).toBe('flights.csv:7');
  expect(shortPlace('4@3#15')).toBe('4@3#15');
});

describe('rows with columns', () => {
  const items = [
    anItem('0#0#1', { location: 'data/in.csv:2', text: 'EWR,IAH' }),
    anItem('0#0#2', { location: 'data/in.csv:3', text: '***' }),
  ];

  it('show a value in each, and what has none of them as it is', () => {
    table({ items, columns: csvColumns('origin,dest') });
    const names = screen.getAllByRole('columnheader').map((one) => one.textContent);
    expect(names).toEqual(['Selected', 'Place', 'origin', 'dest']);
    expect(within(row('0#0#1')).getAllByRole('gridcell').slice(1, 3)).toHaveLength(2);
    expect(within(row('0#0#1')).getByText('IAH')).toHaveClass('items-value');
    expect(within(row('0#0#2')).getByText('***').closest('[role="gridcell"]')).toHaveAttribute(
      'aria-colspan',
      '2',
    );
  });

  it('tell NULL from an empty text', () => {
    const json = [
      anItem('1#0#0', { text: '{"a":"","b":1}' }),
      anItem('1#0#1', { text: '{"b":2}' }),
    ];
    table({ items: json, columns: jsonColumns(json.map(({ text }) => text)) });
    expect(within(row('1#0#0')).queryByText('NULL')).toBeNull();
    expect(within(row('1#0#1')).getByText('NULL')).toBeInTheDocument();
  });
});
