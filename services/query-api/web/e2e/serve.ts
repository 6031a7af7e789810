import type { TestProject } from 'vitest/node';
import { preview } from 'vite';

declare module 'vitest' {
  interface ProvidedContext {
    baseUrl: string;
    isMock: boolean;
  }
}

/** Serves the built page over the made-up service, unless LINEAGE_URL names a server. */
export default async function serve(project: TestProject) {
  const given = process.env.LINEAGE_URL;
  project.provide('isMock', given === undefined);
  if (given !== undefined) {
    project.provide('baseUrl', given.replace(/\/$/, ''));
    return undefined;
  }
  const server = await preview({ preview: { port: 0 }, logLevel: 'warn' });
  const url = server.resolvedUrls?.local[0];
  if (url === undefined) throw new Error('the preview has no address');
  project.provide('baseUrl', url.replace(/\/$/, ''));
  return () => server.close();
}
