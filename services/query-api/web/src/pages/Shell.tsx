import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet } from '@tanstack/react-router';
import { useEffect, type ReactNode } from 'react';

import { meQuery } from '../api/queries';
import type { Me } from '../api/types';
import { leave } from '../auth/oidc';
import { currentSession, onSessionChange } from '../auth/session';
import { SignIn } from '../auth/SignIn';
import { useSession } from '../auth/useSession';
import { ThemeSwitch } from '../components/ThemeSwitch';

/** What all pages have around them; asks for a token where the server does. */
export function Shell(): ReactNode {
  const session = useSession();
  const cache = useQueryClient();
  // Who signs in may see other things; a token that is renewed is of the same person.
  useEffect(() => {
    let { asked } = currentSession();
    return onSessionChange(() => {
      const before = asked;
      ({ asked } = currentSession());
      if (before !== 'no' && asked === 'no') void cache.resetQueries();
    });
  }, [cache]);
  const me = useQuery(meQuery());
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="top">
        <Link to="/" className="brand">
          <svg viewBox="0 0 32 32" aria-hidden>
            <path d="M9 10h4c4 0 4 6 8 6h2M9 22h4c4 0 4-6 8-6" />
            <circle cx="8" cy="10" r="3" />
            <circle cx="8" cy="22" r="3" />
            <circle cx="24" cy="16" r="3" />
          </svg>
          Lineage Master
        </Link>
        <span className="top-space" />
        {me.data !== undefined && me.data.auth !== 'none' && (
          <span className="faint top-caller" title={callerOf(me.data)}>
            {callerOf(me.data)}
          </span>
        )}
        {session.token !== null && (
          <button type="button" className="button button-quiet" onClick={() => void leave()}>
            Sign out
          </button>
        )}
        <Link to="/jobs" className="faint">
          Jobs
        </Link>
        <Link to="/follow" className="faint">
          Follow
        </Link>
        <Link to="/results" className="faint">
          Results
        </Link>
        <Link to="/docs" className="faint">
          API
        </Link>
        <ThemeSwitch />
      </header>
      {session.asked === 'no' ? <Outlet /> : <SignIn />}
    </>
  );
}

const callerOf = ({ name, role, rows }: Me) => `${name} (${role}${rows ? '' : ', without rows'})`;
