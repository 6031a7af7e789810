import { render, screen } from '@testing-library/react';
import { expect, test } from 'vitest';

import { aNode } from '../testing/samples';
import { AboutTab } from './AboutTab';

test('only the query that traces rows of a DataFrame can tell whether their lineage is exact', () => {
  const { rerender } = render(<AboutTab node={aNode({ node: '1', kind: 'frame' })} />);
  expect(screen.queryByText('Exact')).toBeNull();
  expect(screen.getByText(/says whether its lineage is exact/)).toBeVisible();
  rerender(<AboutTab node={aNode({ node: '1' })} />);
  expect(screen.getByText('Exact')).toBeVisible();
});
