import { useState, type DragEvent, type ReactNode } from 'react';

import { Empty } from '../components/Empty';
import { useTitle } from '../components/useTitle';
import { ReplayView } from '../results/ReplayView';
import { SiftView } from '../results/SiftView';
import { StepsView } from '../results/StepsView';
import { ResultError, readResult, type Result } from '../results/reading';

/** Of a file: what the page holds as text at once. */
const BYTES_MAX = 64 * 1024 * 1024;
const TITLES = { replay: 'Replay', step: 'Steps', sift: 'Rows that fail' } as const;

interface Opened {
  /** How many were opened with it: each begins anew. */
  number: number;
  name: string;
  result: Result | null;
  problem: string;
}

/** A result of `lineage replay`, `step` or `sift`, from a file of the reader's. It stays in the browser: a server runs no program, and gets nothing of it. */
export function ResultsPage(): ReactNode {
  useTitle('Results');
  const [opened, setOpened] = useState<Opened | null>(null);
  const open = (file: File | undefined) => {
    if (file === undefined) return;
    void openedFrom(file).then((next) =>
      setOpened((before) => ({ ...next, number: (before?.number ?? 0) + 1 })),
    );
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    open(event.dataTransfer.files[0]);
  };
  return (
    <main className="page" id="main" onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <div className="page-head">
        <h2>{opened?.result ? TITLES[opened.result.kind] : 'Results'}</h2>
        {opened && <span className="faint">{opened.name}</span>}
        <label className="button">
          Open a file
          <input
            type="file"
            className="hidden"
            accept=".json,application/json"
            onChange={(event) => {
              open(event.target.files?.[0]);
              // The same file may be opened again, when it was written anew.
              event.target.value = '';
            }}
          />
        </label>
      </div>
      {opened === null && (
        <Empty title="Drop a result here, or open its file.">
          <p>
            <code>lineage replay</code>, <code>lineage step</code> and <code>lineage sift</code>{' '}
            write it with <code>--json &gt; result.json</code>. It stays in this browser.
          </p>
        </Empty>
      )}
      {opened !== null && opened.problem !== '' && (
        <div className="notice notice-error" role="alert">
          <p className="notice-title">{opened.name} can’t be shown</p>
          <p>{opened.problem}</p>
        </div>
      )}
      {opened?.result && <View key={opened.number} result={opened.result} />}
    </main>
  );
}

function View({ result }: { result: Result }): ReactNode {
  switch (result.kind) {
    case 'replay':
      return <ReplayView result={result} />;
    case 'step':
      return <StepsView result={result} />;
    case 'sift':
      return <SiftView result={result} />;
  }
}

async function openedFrom(file: File): Promise<Omit<Opened, 'number'>> {
  const { name } = file;
  if (file.size > BYTES_MAX) {
    return { name, result: null, problem: 'It has more than 64 MiB: use --limit.' };
  }
  try {
    return { name, result: readResult(await textOf(file)), problem: '' };
  } catch (error) {
    const problem = error instanceof ResultError ? error.message : 'It can’t be read.';
    return { name, result: null, problem };
  }
}

function textOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    // Read as text it is one.
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error('not read'));
    reader.readAsText(file);
  });
}
