import { useId, useState } from 'react';

import type { DisplayNode } from './display';
import { nodeTitle, whereabouts } from './naming';

const SHOWN = 8;

interface Props {
  nodes: DisplayNode[];
  onFind: (node: string) => void;
}

/** Finds a node by what it is called, where it is in the program, or its number. */
export function NodeFinder({ nodes, onFind }: Props) {
  const [words, setWords] = useState('');
  const [active, setActive] = useState(0);
  const list = useId();
  const found = matching(nodes, words);
  const choose = (node: DisplayNode | undefined) => {
    if (node === undefined) return;
    setWords('');
    onFind(node.node);
  };
  return (
    <div className="finder">
      <input
        type="search"
        className="input"
        placeholder="Find a node"
        aria-label="Find a node"
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls={list}
        aria-activedescendant={found[active] ? `${list}-${active}` : undefined}
        value={words}
        onChange={(event) => {
          setWords(event.target.value);
          setActive(0);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') choose(found[active]);
          else if (event.key === 'ArrowDown') setActive((at) => Math.min(at + 1, found.length - 1));
          else if (event.key === 'ArrowUp') setActive((at) => Math.max(at - 1, 0));
          else if (event.key === 'Escape' && words !== '') setWords('');
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <ul id={list} role="listbox" aria-label="Nodes found" hidden={found.length === 0}>
        {found.map((node, index) => (
          <li
            key={node.node}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === active}
            onPointerDown={(event) => {
              event.preventDefault();
              choose(node);
            }}
          >
            <span>{nodeTitle(node)}</span> <small>{whereabouts(node)}</small>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function matching(nodes: DisplayNode[], words: string): DisplayNode[] {
  const wanted = words.trim().toLowerCase();
  if (wanted === '') return [];
  const found: DisplayNode[] = [];
  for (const node of nodes) {
    const description =
      `${node.node} ${nodeTitle(node)} ${node.op} ${whereabouts(node)}`.toLowerCase();
    if (description.includes(wanted)) found.push(node);
    if (found.length === SHOWN) break;
  }
  return found;
}
