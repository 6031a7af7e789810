import { currentSession } from '../auth/session';
import { send } from './client';

/** Saves what a URL answers as a file. */
export async function download(url: string, name: string): Promise<void> {
  // A link streams to disk, but can't carry a token.
  if (currentSession().token === null) {
    save(url, name);
    return;
  }
  const content = URL.createObjectURL(await (await send(url)).blob());
  save(content, name);
  setTimeout(() => URL.revokeObjectURL(content), 60_000);
}

function save(href: string, name: string): void {
  const link = document.createElement('a');
  link.href = href;
  link.download = name;
  link.click();
}
