import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { meQuery, nodeColumnsQuery } from '../api/queries';
import type { ColumnValue, Direction, GraphNode, NodeColumns } from '../api/types';
import { CopyButton } from '../components/CopyButton';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { Loading } from '../components/Loading';
import { quoted } from '../lib/cli';
import { FailedCalls } from './FailedCalls';
import { FrameRows } from './FrameRows';

interface Props {
  app: string;
  id: string;
  node: GraphNode;
  busy: boolean;
  onTrace: (direction: Direction, places: string[]) => void;
  onTraceValues: (direction: Direction, values: ColumnValue[]) => void;
}

/** Rows of a DataFrame: listed as its files hold them, or asked for by their values, or by where they stand. */
export function AskTab(props: Props) {
  const { app, id, node, busy } = props;
  const direction: Direction = node.kind === 'frame' ? 'backward' : 'forward';
  const found = useQuery(nodeColumnsQuery(app, id));
  const me = useQuery(meQuery());
  if (found.error) return <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading what="the columns" />;
  const isSetAside = node.kind === 'frame' && node.op === 'quarantine';
  const calls = isSetAside && me.data?.rows === true && (
    <FailedCalls {...props} traced={found.data.traced} />
  );
  if (!found.data.traced) {
    return (
      <>
        {calls && <div className="ask-tab">{calls}</div>}
        <NoSpark {...props} columns={found.data} direction={direction} />
      </>
    );
  }
  return (
    <div className="ask-tab">
      {calls}
      {!isSetAside && me.data?.rows === true && (
        <FrameRows {...props} columns={found.data.columns} direction={direction} />
      )}
      {me.data?.rows === false ? (
        <p className="rows-note" role="note">
          Who asks for rows by their values learns what they say: whoever runs this server can give
          you the right to see rows.
        </p>
      ) : (
        <ValuesForm
          columns={found.data.columns}
          direction={direction}
          busy={busy}
          onAsk={(values) => props.onTraceValues(direction, values)}
        />
      )}
      <PlaceForm
        direction={direction}
        busy={busy}
        onAsk={(place) => props.onTrace(direction, [place])}
      />
    </div>
  );
}

const asked = (direction: Direction) =>
  direction === 'backward' ? 'Trace back: what it was made of' : 'Trace forward: what it went into';

interface ValuesProps {
  columns: NodeColumns['columns'];
  direction: Direction;
  busy: boolean;
  onAsk: (values: ColumnValue[]) => void;
}

function ValuesForm({ columns, direction, busy, onAsk }: ValuesProps) {
  const [values, setValues] = useState<ColumnValue[]>([
    { column: columns[0]?.name ?? '', value: '' },
  ]);
  const change = (index: number, fields: Partial<ColumnValue>) =>
    setValues(values.map((one, at) => (at === index ? { ...one, ...fields } : one)));
  const unused = columns.find(({ name }) => !values.some((one) => one.column === name));
  if (columns.length === 0) return <p className="faint">The columns of this node are not known.</p>;
  return (
    <form
      aria-label="Rows by their values"
      onSubmit={(event) => {
        event.preventDefault();
        onAsk(values);
      }}
    >
      <h3>Rows by their values</h3>
      {values.map((one, index) => (
        <div key={index} className="ask-value">
          <select
            className="input"
            aria-label={`Column ${index + 1}`}
            value={one.column}
            onChange={(event) => change(index, { column: event.target.value })}
          >
            {columns.map(({ name, type }) => (
              <option key={name} value={name}>
                {name} ({type})
              </option>
            ))}
          </select>
          <input
            className="input"
            aria-label={`Value ${index + 1}`}
            value={one.value ?? ''}
            disabled={one.value === null}
            placeholder={one.value === null ? 'NULL' : 'value'}
            onChange={(event) => change(index, { value: event.target.value })}
          />
          <label>
            <input
              type="checkbox"
              checked={one.value === null}
              onChange={(event) => change(index, { value: event.target.checked ? null : '' })}
            />{' '}
            NULL
          </label>
          {values.length > 1 && (
            <button
              type="button"
              className="button button-small button-quiet"
              aria-label={`Leave out ${one.column}`}
              onClick={() => setValues(values.filter((_, at) => at !== index))}
            >
              ×
            </button>
          )}
        </div>
      ))}
      <div className="ask-buttons">
        <button type="submit" className="button" disabled={busy} title={asked(direction)}>
          {direction === 'backward' ? '← Trace back' : 'Trace forward →'}
        </button>
        {unused !== undefined && (
          <button
            type="button"
            className="button button-quiet"
            onClick={() => setValues([...values, { column: unused.name, value: '' }])}
          >
            And another column
          </button>
        )}
      </div>
    </form>
  );
}

interface PlaceProps {
  direction: Direction;
  busy: boolean;
  onAsk: (place: string) => void;
}

function PlaceForm({ direction, busy, onAsk }: PlaceProps) {
  const [place, setPlace] = useState('');
  return (
    <form
      aria-label="A row by its place"
      onSubmit={(event) => {
        event.preventDefault();
        onAsk(place.trim());
      }}
    >
      <h3>A row by its place</h3>
      <div className="ask-value">
        <input
          className="input"
          aria-label="Place"
          placeholder="PATH#ROW from 0; files of lines PATH:LINE"
          value={place}
          onChange={(event) => setPlace(event.target.value)}
        />
        <button
          type="submit"
          className="button"
          disabled={busy || place.trim() === ''}
          title={asked(direction)}
        >
          {direction === 'backward' ? '← Trace back' : 'Trace forward →'}
        </button>
      </div>
    </form>
  );
}

function NoSpark(props: Props & { columns: NodeColumns; direction: Direction }) {
  const column = props.columns.columns[0]?.name ?? 'column';
  const verb = props.direction === 'backward' ? 'back' : 'forward';
  const place = `${props.id}#${column}=value`;
  const command = `lineage ${verb} ${quoted(place)} --app ${quoted(props.app)}`;
  return (
    <Empty title="This server has no Spark, which traces rows of DataFrames.">
      {props.columns.missing !== '' && <p>{props.columns.missing}</p>}
      <p>Or ask where the store and Spark are:</p>
      <pre className="command">{command}</pre>
      <CopyButton text={command}>Copy as CLI command</CopyButton>
    </Empty>
  );
}
