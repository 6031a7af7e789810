import type { ColumnValue, Direction, GraphNode } from '../api/types';
import { PanelHead } from '../components/PanelHead';
import { Tabs } from '../components/Tabs';
import { nodeTitle, whereabouts } from '../graph/naming';
import { AboutTab } from './AboutTab';
import { AskTab } from './AskTab';
import { RowsTab } from './RowsTab';
import { TurnSelect } from './TurnSelect';

interface Props {
  app: string;
  /** The node whose rows are shown: one of `node.members`. */
  id: string;
  node: GraphNode;
  openedFrom: string | null;
  tab: 'rows' | 'about';
  search: string;
  partition: string | undefined;
  selected: string[];
  opened: string | null;
  onTab: (tab: 'rows' | 'about') => void;
  onSearch: (words: string) => void;
  onPartition: (partition: string | undefined) => void;
  onSelected: (selected: string[]) => void;
  onTrace: (direction: Direction, places: string[]) => void;
  onTraceMatches: (direction: Direction) => void;
  onTraceValues: (direction: Direction, values: ColumnValue[]) => void;
  /** A trace is being made. */
  busy: boolean;
  onShowRow: (address: string) => void;
  onTurn: (node: string) => void;
  onFold: (fold: string) => void;
  onClose: () => void;
}

/** One node: its rows, and what is known of it. */
export function NodePanel(props: Props) {
  const { node, openedFrom } = props;
  return (
    <>
      <PanelHead
        title={nodeTitle(node)}
        detail={`node ${props.id} · ${whereabouts(node)}`}
        closing="Close node"
        onClose={props.onClose}
      >
        <TurnSelect
          turns={node.members.map((member, index) => ({
            node: member,
            words: `turn ${index + 1} (node ${member})`,
          }))}
          node={props.id}
          onChange={props.onTurn}
        />
        {openedFrom !== null && (
          <button type="button" className="button" onClick={() => props.onFold(openedFrom)}>
            Fold the loop
          </button>
        )}
      </PanelHead>
      <Tabs
        label="Node"
        tabs={[
          { id: 'rows', title: 'Rows' },
          { id: 'about', title: 'About' },
        ]}
        active={props.tab}
        onChange={props.onTab}
      >
        {props.tab === 'about' ? (
          <AboutTab node={node} />
        ) : node.kind === 'frame' || node.kind === 'frame-source' ? (
          <AskTab key={props.id} {...props} />
        ) : (
          <RowsTab {...props} />
        )}
      </Tabs>
    </>
  );
}
