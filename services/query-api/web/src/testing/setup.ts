import '@testing-library/jest-dom/vitest';
import { cleanup, configure } from '@testing-library/react';
import { afterEach } from 'vitest';

// A busy machine is slow, not wrong.
configure({ asyncUtilTimeout: 10_000 });

// What pages ask of browsers that jsdom does not have.
HTMLDialogElement.prototype.showModal = function showModal() {
  this.open = true;
};
window.matchMedia = (media) =>
  ({
    media,
    matches: false,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  }) as unknown as MediaQueryList;
window.scrollTo = () => undefined;
/** Lays out no graph: that takes a browser. */
class IdleWorker {
  onmessage = null;
  onerror = null;
  postMessage = () => undefined;
  terminate = () => undefined;
}
globalThis.Worker = IdleWorker as unknown as typeof Worker;

afterEach(cleanup);
