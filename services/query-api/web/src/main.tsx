import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { Problem } from './api/problem';
import { takeLocalToken } from './auth/localToken';
import { RETURN_PATH, finishSignIn } from './auth/oidc';
import { createAppRouter } from './router';
import './styles/index.css';

const TRIES = 2;

const cache = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      // What the server refuses it refuses again; what did not get through may.
      retry: (failures, error) =>
        failures < TRIES && error instanceof Problem && (error.status === 0 || error.status >= 502),
    },
  },
});
const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no #root');
takeLocalToken();
if (location.pathname === RETURN_PATH) {
  root.textContent = 'Signing in…';
  await finishSignIn();
}
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={cache}>
      <RouterProvider router={createAppRouter()} />
    </QueryClientProvider>
  </StrictMode>,
);
