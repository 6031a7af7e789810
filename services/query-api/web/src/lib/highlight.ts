/** Marks what was searched for, and what rows have in common with those a trace started from. */

export type Mark = 'search' | 'shared' | null;

export interface Part {
  text: string;
  mark: Mark;
}

const TOKEN = /[\p{L}\p{N}_]+(?:[.:-][\p{L}\p{N}_]+)*/gu;
const LEAD = 24;

/** Words of a text that are worth finding again: not single digits or letters. */
export function tokensOf(texts: Iterable<string | null>): Set<string> {
  const found = new Set<string>();
  for (const text of texts) {
    for (const [token] of (text ?? '').matchAll(TOKEN)) {
      if (/^\p{N}/u.test(token) ? token.length > 1 : token.length > 1 && token !== 'None') {
        found.add(token);
      }
    }
  }
  return found;
}

/** A text in parts; joined they are the text again. */
export function parts(text: string, search: string, shared: ReadonlySet<string>): Part[] {
  const found: Part[] = [];
  let from = 0;
  for (const [start, end] of occurrences(text, search)) {
    found.push(...sharedParts(text.slice(from, start), shared));
    found.push({ text: text.slice(start, end), mark: 'search' });
    from = end;
  }
  found.push(...sharedParts(text.slice(from), shared));
  return found;
}

/** Where one line has no room for all of a text: from a little before what was searched for. */
export function excerpt(text: string, search: string, room: number): string {
  const at = search === '' ? -1 : text.indexOf(search);
  if (at + search.length <= room) return text;
  return `…${text.slice(Math.max(at - LEAD, 0))}`;
}

function* occurrences(text: string, search: string): Generator<[number, number]> {
  if (search === '') return;
  for (let at = text.indexOf(search); at >= 0; at = text.indexOf(search, at + search.length)) {
    yield [at, at + search.length];
  }
}

function sharedParts(text: string, shared: ReadonlySet<string>): Part[] {
  if (text === '') return [];
  if (shared.size === 0) return [{ text, mark: null }];
  const found: Part[] = [];
  let from = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (!shared.has(match[0])) continue;
    if (match.index > from) found.push({ text: text.slice(from, match.index), mark: null });
    found.push({ text: match[0], mark: 'shared' });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), mark: null });
  return found;
}
