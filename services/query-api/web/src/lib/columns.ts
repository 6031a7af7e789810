/** Texts of rows as values of columns: CSV by the first line of its file, JSON objects by their keys. */

import Papa from 'papaparse';

export interface Columns {
  names: string[];
  /** Where the names are from, in words. */
  origin: string;
  /** The values of a row, one a column (null: it has none); null where its text has not these columns. */
  valuesOf: (text: string) => (string | null)[] | null;
}

const CSV_PATH = /\.(csv|tsv|tab)(\.\w+)?$/i;
/** Rows that are looked at to know what columns JSON objects have. */
const SAMPLE = 200;
const COLUMNS_MAX = 200;

export const isCsv = (path: string | null) => path !== null && CSV_PATH.test(path);

/** Columns as the first line of a file of CSV names them; null where that line is none of names. */
export function csvColumns(header: string): Columns | null {
  const delimiters = [',', '\t', ';', '|'];
  const tried = delimiters.map((delimiter) => ({ delimiter, names: fieldsOf(header, delimiter) }));
  const [best] = tried.sort((a, b) => (b.names?.length ?? 0) - (a.names?.length ?? 0));
  const names = best?.names ?? null;
  if (best === undefined || names === null || !areNames(names)) return null;
  return {
    names,
    origin: 'named by the first line of the file',
    valuesOf: (text) => {
      const values = fieldsOf(text, best.delimiter);
      return values?.length === names.length ? values : null;
    },
  };
}

/**
 * Columns of rows that are JSON objects; null where some are none. NULLs are not in such a row: `known` are columns that
 * the rows are known to have.
 */
export function jsonColumns(
  texts: readonly (string | null)[],
  known: readonly string[] = [],
): Columns | null {
  const names = new Set<string>(known);
  let rows = 0;
  for (const text of texts) {
    if (text === null) continue;
    if (rows === SAMPLE) break;
    const members = membersOf(text);
    if (members === null) return null;
    for (const name of members.keys()) names.add(name);
    rows += 1;
  }
  if (rows === 0 || names.size === 0 || names.size > COLUMNS_MAX) return null;
  const columns = [...names];
  return {
    names: columns,
    origin: 'a column of these rows',
    valuesOf: (text) => {
      const members = membersOf(text);
      if (members === null || [...members.keys()].some((name) => !names.has(name))) return null;
      return columns.map((name) => members.get(name) ?? null);
    },
  };
}

function fieldsOf(line: string, delimiter: string): string[] | null {
  const { data, errors } = Papa.parse<string[]>(line, { delimiter, newline: '\n' });
  const [fields] = data;
  return data.length === 1 && errors.length === 0 && fields !== undefined ? fields : null;
}

/** Names of columns are several, differ, and are no numbers. */
function areNames(fields: string[]): boolean {
  const names = fields.map((name) => name.trim());
  return (
    names.length > 1 &&
    names.length <= COLUMNS_MAX &&
    new Set(names).size === names.length &&
    names.every((name) => name !== '' && Number.isNaN(Number(name)))
  );
}

const WORD = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/**
 * The members of a JSON object: strings as they are, all else as it is written (numbers have more digits than
 * JavaScript's), null as null. Null for what is no object, or names a member twice.
 */
export function membersOf(text: string): Map<string, string | null> | null {
  if (!text.startsWith('{') || !isJson(text)) return null;
  const found = new Map<string, string | null>();
  let [depth, name, start] = [0, null as string | null, 0];
  const end = (at: number) => {
    if (name === null) return true;
    if (found.has(name)) return false;
    const raw = text.slice(start, at).trim();
    found.set(
      name,
      raw === 'null' ? null : raw.startsWith('"') ? (JSON.parse(raw) as string) : raw,
    );
    name = null;
    return true;
  };
  let key = '';
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (word === '{' || word === '[') depth += 1;
    else if (word === '}' || word === ']') {
      depth -= 1;
      if (depth === 0 && !end(index)) return null;
    } else if (depth === 1 && word === ',') {
      if (!end(index)) return null;
    } else if (depth === 1 && word === ':' && name === null) {
      name = JSON.parse(key) as string;
      start = index + 1;
    } else if (depth === 1 && name === null) key = word;
  }
  return found;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
