import { render, screen } from '@testing-library/react';
import { expect, test } from 'vitest';

import { Place } from './Place';

test('the end of a long place is never left out', () => {
  const place = 'part-00000-3f2b8c3e-44c1-4f7e-9f63-0a5d2c8f2d11-c000.snappy.parquet#1234';
  render(<Place place={place} />);
  expect(screen.getByTitle(place)).toHaveTextContent(place);
  expect(screen.getByText('nappy.parquet#1234'.slice(-16))).toHaveClass('place-tail');
});

test('a short place is its end', () => {
  render(<Place place="in.csv:5" title="data/in.csv:5" />);
  expect(screen.getByTitle('data/in.csv:5')).toHaveTextContent('in.csv:5');
  expect(screen.getByText('in.csv:5')).toHaveClass('place-tail');
});
