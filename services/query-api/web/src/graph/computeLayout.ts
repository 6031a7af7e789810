import { THOROUGH_LIMIT, type Layout, type LayoutInput } from './layout';
import { thorough } from './thorough';

/** Lays a graph out off the main thread. */
export async function computeLayout(input: LayoutInput): Promise<Layout> {
  if (input.nodes.length > THOROUGH_LIMIT) return simple(input);
  try {
    return await thorough(input);
  } catch (error) {
    console.warn('The thorough layout failed; the simple one is used.', error);
    return simple(input);
  }
}

function simple(input: LayoutInput): Promise<Layout> {
  const worker = new Worker(new URL('./layered.worker.ts', import.meta.url), { type: 'module' });
  return new Promise<Layout>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<Layout>) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage(input);
  }).finally(() => worker.terminate());
}
