/** What the service sends with every page; the preview sends it, too, so that tests hold against it. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "worker-src 'self'",
  "connect-src 'self'",
].join('; ');
