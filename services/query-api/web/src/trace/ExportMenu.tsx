import { useState } from 'react';

import { download } from '../api/download';
import { EXPORT_FORMATS, type ExportFormat } from '../api/types';

type Format = ExportFormat | 'ndjson';

const SUFFIX: Record<Format, string> = {
  csv: 'csv',
  ndjson: 'ndjson',
  arrow: 'arrow',
  parquet: 'parquet',
  prov: 'prov.json',
  graphml: 'graphml',
  mermaid: 'mmd',
};
const WORDS: Record<Format, string> = {
  csv: 'CSV',
  ndjson: 'JSON lines',
  arrow: 'Arrow',
  parquet: 'Parquet',
  prov: 'W3C PROV',
  graphml: 'GraphML',
  mermaid: 'Mermaid',
};

interface Props {
  formats: readonly Format[];
  url: (format: Format) => string;
  /** Of the file, without what says its format. */
  name: string;
  onError: (error: Error) => void;
}

/** Saves all of a trace, in a format of one's choice. */
export function ExportMenu({ formats, url, name, onError }: Props) {
  const [busy, setBusy] = useState(false);
  const save = async (format: Format) => {
    setBusy(true);
    try {
      await download(url(format), `${name}.${SUFFIX[format]}`);
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
    } finally {
      setBusy(false);
    }
  };
  return (
    <select
      className="input"
      aria-label="Export"
      value=""
      disabled={busy}
      onChange={(event) => {
        const format = [...EXPORT_FORMATS, 'ndjson' as const].find((f) => f === event.target.value);
        if (format !== undefined) void save(format);
      }}
    >
      <option value="">{busy ? 'Exporting…' : 'Export…'}</option>
      {formats.map((format) => (
        <option key={format} value={format}>
          {WORDS[format]}
        </option>
      ))}
    </select>
  );
}
