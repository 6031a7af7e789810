import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';

import { applicationQuery, arraysQuery, cellTraceQuery } from '../api/queries';
import type { CellTrace, FoundCells, NamedArray } from '../api/types';
import { ArrayFigure } from '../arrays/ArrayFigure';
import { CellList } from '../arrays/CellList';
import type { Shades } from '../arrays/painting';
import { formatPlane, parsePlane, type Plane } from '../arrays/planes';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { useTitle } from '../components/useTitle';
import { count } from '../lib/format';
import { Notes } from '../trace/TraceNotes';
import type { CellsSearch } from '../url/searches';
import { ApplicationHead } from './ApplicationHead';

const route = getRouteApi('/apps/$app/cells');

/** Cells of arrays: those that cells of one array were made from, or went into, over pictures of the others. */
export function CellsPage(): ReactNode {
  const { app } = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/apps/$app/cells' });
  useTitle('Cells of arrays');
  const detail = useQuery(applicationQuery(app));
  const arrays = useInfiniteQuery(arraysQuery(app));
  const listed = arrays.data?.pages.flatMap((page) => page.items) ?? [];
  const chosen = listed.find(({ id }) => id === search.array) ?? listed.find(isOutput) ?? listed[0];
  const go = (change: Partial<CellsSearch>) =>
    void navigate({
      search: (before: CellsSearch) => ({ ...before, ...change }),
      resetScroll: false,
    });
  return (
    <main className="page page-wide" id="main">
      {detail.data && <ApplicationHead app={detail.data} />}
      <div className="page-head">
        <h2>Cells of arrays</h2>
        {arrays.data && (
          <span className="faint">{count(arrays.data.pages[0]?.total ?? 0)} arrays</span>
        )}
      </div>
      {arrays.error && <ErrorNotice error={arrays.error} onRetry={() => void arrays.refetch()} />}
      {arrays.isPending && <Loading what="the arrays" />}
      {arrays.data && chosen === undefined && <Empty title="The program named no arrays." />}
      {chosen && (
        <>
          <ArraySelect
            arrays={listed}
            chosen={chosen}
            onChange={(array) => go({ array, cells: undefined })}
          />
          {arrays.hasNextPage && (
            <button type="button" className="button" onClick={() => void arrays.fetchNextPage()}>
              List more arrays
            </button>
          )}
          <Traced
            key={chosen.id}
            app={detail.data?.app ?? app}
            array={chosen}
            cells={search.cells}
            choices={search.choices === 'all'}
            onCells={(cells) => go({ array: chosen.id, cells })}
            onChoices={(all) => go({ choices: all ? 'all' : undefined })}
          />
        </>
      )}
    </main>
  );
}

interface SelectProps {
  arrays: NamedArray[];
  chosen: NamedArray;
  onChange: (id: string) => void;
}

function ArraySelect({ arrays, chosen, onChange }: SelectProps) {
  const group = (label: string, some: NamedArray[]) =>
    some.length > 0 && (
      <optgroup label={label}>
        {some.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </optgroup>
    );
  return (
    <label className="array-select">
      Array{' '}
      <select
        className="input"
        aria-label="Array"
        value={chosen.id}
        onChange={(event) => onChange(event.target.value)}
      >
        {group('Outputs (cells that they were made from)', arrays.filter(isOutput))}
        {group(
          'Sources (cells that they went into)',
          arrays.filter((one) => one.is_source),
        )}
      </select>
    </label>
  );
}

interface TracedProps {
  app: string;
  array: NamedArray;
  cells: string | undefined;
  choices: boolean;
  onCells: (index: string) => void;
  onChoices: (all: boolean) => void;
}

/** One array, cells of it, and what a trace from these finds in the others. */
function Traced({ app, array, cells, choices, onCells, onChoices }: TracedProps) {
  const [planes, setPlanes] = useState<Record<string, Plane>>({});
  const [shades, setShades] = useState<Shades>('grey');
  const trace = useQuery({
    ...cellTraceQuery(app, array, cells, choices, mapped(planes)),
    placeholderData: keepPreviousData,
  });
  const found = trace.data;
  const figure = (part: FoundCells, isAsked: boolean) =>
    part.picture === null ? (
      <Undrawn key={part.array.id} app={app} cells={part} />
    ) : (
      <ArrayFigure
        key={part.array.id}
        app={app}
        array={part.array}
        plane={planes[part.array.id] ?? parsePlane(part.picture.plane)}
        marks={isAsked && cells === undefined ? null : part.picture}
        shades={shades}
        onPlane={(plane) => setPlanes((before) => ({ ...before, [part.array.id]: plane }))}
        onCells={isAsked ? onCells : undefined}
      >
        {(!isAsked || cells !== undefined) && <CellList app={app} cells={part} />}
      </ArrayFigure>
    );
  return (
    <>
      <div className="filters">
        <CellsForm key={cells} cells={cells ?? ''} array={array} onCells={onCells} />
        <label>
          <input
            type="checkbox"
            checked={choices}
            onChange={(event) => onChoices(event.target.checked)}
          />{' '}
          All cells that took part in choices
        </label>
        <label>
          Shades{' '}
          <select
            className="input"
            value={shades}
            onChange={(event) => setShades(event.target.value as Shades)}
          >
            <option value="grey">Grey</option>
            <option value="colour">Colour</option>
          </select>
        </label>
      </div>
      {trace.error && <ErrorNotice error={trace.error} />}
      {trace.isPending && <Loading what="the cells" />}
      {found && (
        <>
          {cells !== undefined && <Claims trace={found} />}
          <div className="array-figures" aria-busy={trace.isFetching}>
            {figure(found.asked, true)}
            {cells !== undefined && found.arrays.map((part) => figure(part, false))}
          </div>
          {cells !== undefined && found.arrays_total > found.arrays.length && (
            <p className="faint">
              {count(found.arrays_total - found.arrays.length)} more arrays are not shown.
            </p>
          )}
        </>
      )}
    </>
  );
}

/** An array of which there is no picture: an answer has only so many. */
function Undrawn({ app, cells }: { app: string; cells: FoundCells }) {
  return (
    <section className="array-figure" aria-label={cells.array.name}>
      <h3>{cells.array.name}</h3>
      <CellList app={app} cells={cells} />
    </section>
  );
}

interface FormProps {
  cells: string;
  array: NamedArray;
  onCells: (index: string) => void;
}

/** The index of cells, for who types it. */
function CellsForm({ cells, array, onCells }: FormProps) {
  const [text, setText] = useState(cells);
  return (
    <form
      className="cells-form"
      onSubmit={(event) => {
        event.preventDefault();
        onCells(text.trim() || '...');
      }}
    >
      <label>
        Cells of {array.name}{' '}
        <input
          className="input"
          value={text}
          placeholder={array.shape.length > 1 ? '12,40:50' : '12'}
          onChange={(event) => setText(event.target.value)}
        />
      </label>
      <button type="submit" className="button button-main">
        {array.is_source ? 'Trace forward' : 'Trace back'}
      </button>
    </form>
  );
}

/** What the answer says about itself. */
function Claims({ trace }: { trace: CellTrace }) {
  const notes = [
    ...trace.superset_reasons.map((why) => `Not exact: ${why}`),
    ...trace.incomplete_reasons.map((why) => `Incomplete: ${why}`),
    ...trace.chosen_by.map((where) => `Chosen by values: ${where}`),
  ];
  return (
    <>
      <p role="status">
        {trace.exact ? 'Exact' : 'A superset'}, {trace.complete ? 'complete' : 'incomplete'}.
      </p>
      <Notes notes={notes} />
    </>
  );
}

const isOutput = (array: NamedArray) => !array.is_source;
const mapped = (planes: Record<string, Plane>) =>
  Object.fromEntries(Object.entries(planes).map(([id, plane]) => [id, formatPlane(plane)]));
