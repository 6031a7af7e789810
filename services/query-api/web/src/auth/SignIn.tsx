import { useState } from 'react';

import { signIn } from './session';

/** Takes a token, kept in this browser tab only. */
export function SignIn({ refused }: { refused: boolean }) {
  const [token, setToken] = useState('');
  return (
    <main className="sign-in" id="main">
      <h1>Sign in</h1>
      <p>This server asks for a token. Whoever runs it gives you one.</p>
      <p className="faint">
        On your own machine, open the address that <code>lineage ui</code> printed: it holds the
        token.
      </p>
      {refused && (
        <p className="notice notice-error" role="alert">
          The server refused this token. It may have expired.
        </p>
      )}
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
    </main>
  );
}
