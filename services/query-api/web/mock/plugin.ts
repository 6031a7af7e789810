import type { Connect, Plugin } from 'vite';

import { mockService } from './service.ts';
import { CONTENT_SECURITY_POLICY } from './policy.ts';

/** Answers the query API from made-up data, in `vite` and in `vite preview`. */
export function mockApi(): Plugin {
  return {
    name: 'mock-query-api',
    configureServer: (server) => void server.middlewares.use(mockService()),
    configurePreviewServer: (server) => {
      server.middlewares.use(policy);
      server.middlewares.use(mockService());
    },
  };
}

const policy: Connect.NextHandleFunction = (_request, response, next) => {
  response.setHeader('Content-Security-Policy', CONTENT_SECURITY_POLICY);
  next();
};
