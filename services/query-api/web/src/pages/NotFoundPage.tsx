import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { Empty } from '../components/Empty';

export function NotFoundPage(): ReactNode {
  return (
    <main className="page" id="main">
      <Empty title="There is no page here.">
        <p>
          <Link to="/">All applications</Link>
        </p>
      </Empty>
    </main>
  );
}
