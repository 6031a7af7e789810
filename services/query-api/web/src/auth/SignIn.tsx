import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import type { OidcClient } from '../api/types';
import { Loading } from '../components/Loading';
import { signInWays, startSignIn } from './oidc';
import { signIn } from './session';
import { useSession } from './useSession';

/** Signs in at the server's issuer where it has one, or takes a token; kept in this browser tab only. */
export function SignIn() {
  const { asked, failure } = useSession();
  const ways = useQuery({
    queryKey: ['sign-in'],
    queryFn: ({ signal }) => signInWays(signal),
    staleTime: Infinity,
  });
  if (ways.isPending) return <Loading what="ways to sign in" />;
  const oidc = ways.data?.oidc ?? null;
  return (
    <main className="sign-in" id="main">
      <h1>Sign in</h1>
      {asked === 'refused' && (
        <p className="notice notice-error" role="alert">
          The server refused this token. It may have expired.
        </p>
      )}
      {failure !== undefined && (
        <p className="notice notice-error" role="alert">
          Signing in did not succeed. {failure}
        </p>
      )}
      {oidc === null ? (
        <>
          <p>This server asks for a token. Whoever runs it gives you one.</p>
          <p className="faint">
            On your own machine, open the address that <code>lineage ui</code> printed: it holds the
            token.
          </p>
          <TokenForm />
        </>
      ) : (
        <>
          <AtIssuer oidc={oidc} />
          <details>
            <summary>With a token</summary>
            <TokenForm />
          </details>
        </>
      )}
    </main>
  );
}

function AtIssuer({ oidc }: { oidc: OidcClient }) {
  const leaving = useMutation({ mutationFn: () => startSignIn(oidc) });
  return (
    <>
      <p>You come back to this very page.</p>
      {leaving.isError && (
        <p className="notice notice-error" role="alert">
          {leaving.error instanceof TypeError
            ? 'The issuer does not answer this page.'
            : leaving.error.message}
        </p>
      )}
      <button
        type="button"
        className="button button-main"
        autoFocus
        disabled={leaving.isPending}
        onClick={() => leaving.mutate()}
      >
        Sign in at {new URL(oidc.issuer).host}
      </button>
    </>
  );
}

function TokenForm() {
  const [token, setToken] = useState('');
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim() !== '') signIn(token.trim());
        }}
      >
        <label>
          Token
          <input
            className="input"
            type="password"
            autoComplete="off"
            autoFocus
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        <button type="submit" className="button button-main">
          Sign in
        </button>
      </form>
      <p className="faint">It is kept until you close this tab, and sent to this server only.</p>
    </>
  );
}
