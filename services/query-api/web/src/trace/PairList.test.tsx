import { render, screen, within } from '@testing-library/react';
import { describe, expect, it } from 'vitest';

import type { Trace } from '../api/types';
import { PairList } from './PairList';

const row = (node: string, line: number) => ({
  node,
  name: `read:${node}`,
  address: `/${node}.json#${line - 1}`,
  location: `/${node}.json:${line}`,
});

function listed(pairs: Trace['pairs']) {
  const item = {
    address: '/flights.json#3',
    location: '/flights.json:4',
    text: '{"f":3}',
    binding: null,
  };
  const trace = { pairs, groups: [{ node: 'flights', items: [item] }] } as unknown as Trace;
  return render(<PairList trace={trace} />);
}

describe('rows that belong together', () => {
  it('are listed side by side, with what they say', () => {
    listed({ rows: [[row('flights', 4), row('weather', 2)]], unknown: [] });
    expect(
      screen.getByText('1 combination of rows that were joined with each other'),
    ).toBeVisible();
    const [pair = document.body] = screen.getAllByRole('listitem', { hidden: true });
    expect(within(pair).getByText('{"f":3}')).toBeInTheDocument();
    expect(pair).toHaveTextContent('weather.json');
    expect(screen.queryByText(/may be others/)).toBeNull();
  });

  it('are said not to be known, with the reason', () => {
    listed({ rows: [], unknown: ['a side is made from groups'] });
    expect(screen.getByText(/is not known$/)).toBeVisible();
    expect(screen.getByText(/a side is made from groups/)).toBeInTheDocument();
  });

  it('are not spoken of where nothing was joined, or nobody knows', () => {
    expect(listed({ rows: [], unknown: [] }).container).toBeEmptyDOMElement();
    expect(listed(null).container).toBeEmptyDOMElement();
  });
});
