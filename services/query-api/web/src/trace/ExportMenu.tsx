import { useState } from 'react';

import { download } from '../api/download';
import { traceExportUrl } from '../api/lineage';
import { EXPORT_FORMATS, type ExportFormat, type Trace } from '../api/types';

const SUFFIX: Record<ExportFormat | 'ndjson', string> = {
  csv: 'csv',
  ndjson: 'ndjson',
  arrow: 'arrow',
  parquet: 'parquet',
  prov: 'prov.json',
  graphml: 'graphml',
  mermaid: 'mmd',
};
const WORDS: Record<ExportFormat | 'ndjson', string> = {
  csv: 'CSV',
  ndjson: 'JSON lines',
  arrow: 'Arrow',
  parquet: 'Parquet',
  prov: 'W3C PROV',
  graphml: 'GraphML',
  mermaid: 'Mermaid',
};

const ALL = ['csv', 'ndjson', 'arrow', 'parquet', 'prov', 'graphml', 'mermaid'] as const;
/** What is computed by a query is items alone. */
const COMPUTED = ['csv', 'ndjson', 'arrow', 'parquet'] as const;

/** Saves all items of a trace, in a format of one's choice. */
export function ExportMenu({ trace, onError }: { trace: Trace; onError: (error: Error) => void }) {
  const [busy, setBusy] = useState(false);
  const save = async (format: ExportFormat | 'ndjson') => {
    setBusy(true);
    try {
      const name = `${trace.app}-${trace.direction}.${SUFFIX[format]}`;
      await download(traceExportUrl(trace.trace, format), name);
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
      {(trace.computed || trace.through ? COMPUTED : ALL).map((format) => (
        <option key={format} value={format}>
          {WORDS[format]}
        </option>
      ))}
    </select>
  );
}
