import { describe, expect, it } from 'vitest';

import { csvColumns, isCsv, jsonColumns, membersOf } from './columns';

describe('rows of CSV', () => {
  it('have the columns that the first line names', () => {
    const columns = csvColumns('origin,dest,"delay, min"');
    expect(columns?.names).toEqual(['origin', 'dest', 'delay, min']);
    expect(columns?.valuesOf('JFK,"Oslo, ""new""",-2')).toEqual(['JFK', 'Oslo, "new"', '-2']);
    expect(columns?.valuesOf('JFK,,')).toEqual(['JFK', '', '']);
  });

  it('are found by their delimiter', () => {
    expect(csvColumns('a\tb')?.valuesOf('1,5\t2')).toEqual(['1,5', '2']);
    expect(csvColumns('a;b;c')?.names).toEqual(['a', 'b', 'c']);
  });

  it('that have other columns, or are half a row, stay texts', () => {
    const columns = csvColumns('a,b');
    expect(columns?.valuesOf('1,2,3')).toBeNull();
    expect(columns?.valuesOf('***')).toBeNull();
    expect(columns?.valuesOf('1,"2')).toBeNull();
  });

  it('have no names where the first line is a row as any other', () => {
    for (const line of ['1,2', 'a,a', 'a,', 'ann', 'a,2013', '***']) {
      expect(csvColumns(line)).toBeNull();
    }
  });

  it('are in files that are called so', () => {
    expect(['a/b.csv', 'b.tsv.gz', 'B.CSV'].every(isCsv)).toBe(true);
    expect([null, 'out', 'csv', 'a.csv/part-0', 'a.parquet'].some(isCsv)).toBe(false);
  });
});

describe('rows that are JSON objects', () => {
  it('have the columns that any of them has; what a row has not is NULL', () => {
    const columns = jsonColumns(['{"a":1}', null, '{"b":"x","a":null}']);
    expect(columns?.names).toEqual(['a', 'b']);
    expect(columns?.valuesOf('{"b":"y"}')).toEqual([null, 'y']);
    expect(columns?.valuesOf('{"c":1}')).toBeNull();
  });

  it('keep all digits of their numbers, and nested values as they are written', () => {
    const members = membersOf(
      '{"id":9007199254740993,"x":1.50,"n":{"k":[1,"}"],"a":null},"s":"a\\"b, c:","l":[] , "z":null}',
    );
    expect(Object.fromEntries(members ?? [])).toEqual({
      id: '9007199254740993',
      x: '1.50',
      n: '{"k":[1,"}"],"a":null}',
      s: 'a"b, c:',
      l: '[]',
      z: null,
    });
  });

  it('are none where one is something else, is cut or names a column twice', () => {
    for (const text of ['x', '[1]', '{"a":1', '{"a":1} [cut: 1 of 2 bytes]', '{"a":1,"a":2}']) {
      expect(membersOf(text)).toBeNull();
      expect(jsonColumns(['{"a":1}', text])).toBeNull();
    }
    expect(jsonColumns([])).toBeNull();
    expect(jsonColumns(['{}'])).toBeNull();
  });
});
