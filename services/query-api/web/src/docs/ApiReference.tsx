import { useEffect, useRef } from 'react';
import SwaggerUI, { type SwaggerRequest } from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';
import './reference.css';

import { currentSession } from '../auth/session';
import { useTheme } from '../components/theme';

/** Swagger UI over the server's own document. Requests that a reader tries carry the token of this tab. */
export default function ApiReference() {
  const place = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  // The class by which Swagger UI's styles know the theme.
  useEffect(() => {
    const { classList } = document.documentElement;
    classList.toggle('dark-mode', theme === 'dark');
    return () => classList.remove('dark-mode');
  }, [theme]);
  useEffect(() => {
    const domNode = place.current;
    if (domNode === null) return;
    SwaggerUI({
      domNode,
      url: '/openapi.json',
      deepLinking: false,
      validatorUrl: null,
      // A shown request would show the token.
      showMutatedRequest: false,
      requestInterceptor: (request) => withToken(request),
    });
    return () => domNode.replaceChildren();
  }, []);
  return <div ref={place} className="api-reference" />;
}

function withToken(request: SwaggerRequest): SwaggerRequest {
  const { token } = currentSession();
  const own = new URL(request.url, location.origin).origin === location.origin;
  if (own && token !== null && !('Authorization' in request.headers))
    request.headers.Authorization = `Bearer ${token}`;
  return request;
}
