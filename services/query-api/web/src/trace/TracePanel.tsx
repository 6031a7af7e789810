import { useMemo, useState } from 'react';

import { traceExportUrl } from '../api/lineage';
import { EXPORT_FORMATS, type Direction, type GraphNode, type Trace } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { CopyButton } from '../components/CopyButton';
import { Empty } from '../components/Empty';
import { ErrorNotice } from '../components/ErrorNotice';
import { MarkedText } from '../components/MarkedText';
import { PanelHead } from '../components/PanelHead';
import { Place } from '../components/Place';
import { nodeTitle, whereabouts } from '../graph/naming';
import { allJobsCommand, sharedPlacesOf, traceCommands } from '../lib/cli';
import { count, counted } from '../lib/format';
import { TurnSelect } from '../node/TurnSelect';
import { AllJobs } from './AllJobs';
import { ExportMenu } from './ExportMenu';
import { FoundItems, isFrameKind } from './FoundItems';
import { InfluenceList } from './InfluenceList';
import { LevelCounts } from './LevelCounts';
import { PairList } from './PairList';
import { startWords } from './requests';
import { StepBar } from './StepBar';
import { TraceNotes } from './TraceNotes';

const START_SHOWN = 3;
const ALL = [...EXPORT_FORMATS, 'ndjson'] as const;
/** What is computed by a query is items alone. */
const COMPUTED = ['csv', 'ndjson', 'arrow', 'parquet'] as const;
const NO_WORDS: ReadonlySet<string> = new Set();

interface Props {
  trace: Trace;
  /** The node whose items are listed. */
  at: string | null;
  /** As it is drawn. */
  node: GraphNode | undefined;
  search: string;
  shared: ReadonlySet<string>;
  opened: string | null;
  canGoOn: boolean;
  busy: boolean;
  /** Whether it is also shown through all jobs. */
  allJobs: boolean;
  /** Whether the application read from a node. */
  isSource: (node: string) => boolean;
  onAllJobs: (on: boolean) => void;
  onSteps: (steps: number | null) => void;
  onAt: (node: string) => void;
  onTrace: (direction: Direction, places: string[]) => void;
  onShowRow: (address: string) => void;
  onRowsOf: (node: string) => void;
  onClose: () => void;
}

/** What a trace found: counts first, then the rows of each node, as far as they are looked at. */
export function TracePanel(props: Props) {
  const { trace, at, node, onAt } = props;
  const [failed, setFailed] = useState<Error | null>(null);
  const sharedPlaces = sharedPlacesOf(trace, props.isSource);
  const commands = props.allJobs ? allJobsCommand(trace, sharedPlaces) : traceCommands(trace, at);
  const counts = useMemo(() => countsOf(trace), [trace]);
  return (
    <>
      <PanelHead
        title={trace.direction === 'backward' ? 'Backward trace' : 'Forward trace'}
        detail={`${trace.direction === 'backward' ? 'what made' : 'what became of'} ${startWords(trace)}`}
        closing="Leave trace"
        onClose={props.onClose}
      />
      <div className="trace-body">
        <StartRows trace={trace} search={props.search} />
        {!trace.computed && (
          <StepBar
            steps={trace.request.steps}
            canGoOn={props.canGoOn}
            busy={props.busy}
            onSteps={props.onSteps}
          />
        )}
        <TraceNotes trace={trace} />
        {failed && <ErrorNotice error={failed} />}
        <p className="trace-count" role="status">
          <strong>{count(trace.count)}</strong> {trace.count === 1 ? 'item' : 'items'} in{' '}
          {counted(trace.groups.length, 'node')}
          {trace.request.steps !== null && ` after ${counted(trace.request.steps, 'step')}`}
        </p>
        <AllJobs
          key={`all jobs ${trace.trace}`}
          trace={trace}
          isOn={props.allJobs}
          sharedPlaces={sharedPlaces}
          fromSource={trace.start.some(({ node: from }) => props.isSource(from))}
          search={props.search}
          onChange={props.onAllJobs}
        />
        <LevelCounts key={trace.trace} trace={trace} />
        <PairList trace={trace} />
        <InfluenceList key={`influence ${trace.trace}`} trace={trace} />
        <div className="chips" role="group" aria-label="Found in">
          {trace.groups.map((group) => (
            <button
              key={group.node}
              type="button"
              className="chip"
              aria-pressed={group.node === at}
              title={group.path ?? group.what}
              onClick={() => onAt(group.node)}
            >
              {group.label === group.node ? group.what : group.label}
              <span className="chip-count">{count(group.count)}</span>
              {group.gone && ' (file is gone)'}
            </button>
          ))}
        </div>
        {at !== null && (
          <div className="trace-at">
            <h3>
              {node ? nodeTitle(node) : `node ${at}`}{' '}
              {node && <span className="faint trace-where">{whereabouts(node)}</span>}
            </h3>
            <TurnSelect
              turns={(node?.members ?? []).flatMap((member, index) =>
                counts.has(member)
                  ? [
                      {
                        node: member,
                        words: `turn ${index + 1}: ${counted(counts.get(member) ?? 0, 'item')}`,
                      },
                    ]
                  : [],
              )}
              node={at}
              onChange={onAt}
            />
            <button
              type="button"
              className="button button-small button-quiet"
              onClick={() => props.onRowsOf(at)}
            >
              {isFrameKind(node?.kind) ? 'Other rows of this node' : 'All rows of this node'}
            </button>
          </div>
        )}
        {at === null ? (
          <NothingFound trace={trace} />
        ) : counts.has(at) ? (
          <FoundItems {...props} key={`${trace.trace} ${at}`} at={at} />
        ) : (
          <Empty title="Nothing of this trace is stored here.">
            <p>
              The trace leads past it, or through a chain that keeps no rows. Choose a node with a
              number.
            </p>
          </Empty>
        )}
      </div>
      <div className="panel-foot">
        {commands === null ? (
          <span className="faint">
            No command: it would have to name {count(startCount(trace))} places
          </span>
        ) : (
          <>
            <code className="command-line" title={commands}>
              {commands.split('\n')[0]}
            </code>
            <CopyButton text={commands}>Copy as CLI command</CopyButton>
          </>
        )}
        <CopyButton text={() => window.location.href}>Copy link</CopyButton>
        <ExportMenu
          formats={trace.computed || trace.through ? COMPUTED : ALL}
          url={(format) => traceExportUrl(trace.trace, format)}
          name={`${trace.app}-${trace.direction}`}
          onError={setFailed}
        />
      </div>
    </>
  );
}

function StartRows({ trace, search }: { trace: Trace; search: string }) {
  const items = trace.start.flatMap((group) => group.items).slice(0, START_SHOWN);
  const more = startCount(trace) - items.length;
  if (items.length === 0) return null;
  return (
    <ul className="start-rows" aria-label="Traced from">
      {items.map((item, index) => (
        <li key={index}>
          <Place place={item.location ?? item.address} />
          <span className="start-text">
            <AsItIsNow of={item} />
            {item.text !== null && (
              <MarkedText text={item.text} search={search} shared={NO_WORDS} />
            )}
          </span>
        </li>
      ))}
      {more > 0 && <li className="faint">and {count(more)} more</li>}
    </ul>
  );
}

function NothingFound({ trace }: { trace: Trace }) {
  return (
    <Empty
      title={
        trace.direction === 'backward' ? 'It was made of no row.' : 'It did not go into any output.'
      }
    >
      <p>
        {trace.direction === 'backward'
          ? 'It begins in the program itself, or its lineage is missing (see the verdict).'
          : 'A filter dropped it, or it was on the inner side of a join that found no partner.'}
      </p>
    </Empty>
  );
}

const startCount = (trace: Trace) => trace.start.reduce((sum, group) => sum + group.count, 0);

/** Items by node, of every node that takes part. */
export function countsOf(trace: Trace): Map<string, number> {
  return new Map(
    [...trace.start, ...trace.groups, ...trace.passed].map(({ node, count: n }) => [node, n]),
  );
}
