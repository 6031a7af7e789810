/** JSON whose numbers keep their very digits: long integers of rows would else be rounded. */

export type Json = string | boolean | null | ExactNumber | Json[] | { [name: string]: Json };

/** A number as it stands in the text; also NaN and Infinity, which Python writes. */
export class ExactNumber {
  constructor(readonly digits: string) {}
}

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:\d[\d.eE+-]*|Infinity)|NaN/gs;

/** Throws SyntaxError as JSON.parse does. */
export function parseExact(text: string): Json {
  // No text can have been written to look like a number of this call.
  const mark = crypto.randomUUID();
  const marked = text.replace(TOKENS, (token) => {
    if (token.startsWith('"')) return token;
    if (/\d/.test(token)) JSON.parse(token);
    return `"${mark}${token}"`;
  });
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark)
      ? new ExactNumber(value.slice(mark.length))
      : value,
  ) as Json;
}

/** A value as people read it: a text as it is, others as JSON on one line. */
export const shownText = (value: Json): string =>
  typeof value === 'string' ? value : jsonText(value);

function jsonText(value: Json): string {
  if (value instanceof ExactNumber) return value.digits;
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const parts = Object.entries(value).map(
    ([name, part]) => `${JSON.stringify(name)}: ${jsonText(part)}`,
  );
  return `{${parts.join(', ')}}`;
}
