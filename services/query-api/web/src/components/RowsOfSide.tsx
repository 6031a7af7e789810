import type { Item } from '../api/types';
import { count } from '../lib/format';
import { AsItIsNow } from './AsItIsNow';

/** Rows of one side of a comparison, the first of them where there are many. */
export function RowsOfSide(props: { title: string; count: number; items: Item[] }) {
  const more = props.count - props.items.length;
  return (
    <div className="side">
      <h4>
        {props.title} <span className="chip-count">{count(props.count)}</span>
      </h4>
      {props.count === 0 && <p className="faint">nothing</p>}
      <ul className="plain-rows">
        {props.items.map((item) => (
          <li key={item.address}>
            <span className="start-place">{item.location ?? item.address}</span>{' '}
            <AsItIsNow of={item} />
            {item.text}
          </li>
        ))}
      </ul>
      {more > 0 && <p className="faint">and {count(more)} more</p>}
    </div>
  );
}
