import type { Item } from '../api/types';
import { AsItIsNow } from '../components/AsItIsNow';
import { CopyButton } from '../components/CopyButton';
import { Place } from '../components/Place';
import type { Columns } from '../lib/columns';
import { RowFields } from './RowFields';

interface Props {
  item: Item;
  columns: Columns | null;
  onClose: () => void;
}

/** A row of a DataFrame, with all that it holds: it stands in no file of lines. */
export function WholeRow({ item, columns, onClose }: Props) {
  const { text } = item;
  return (
    <section className="raw" aria-label="Whole row">
      <div className="raw-head">
        <h3>
          <Place place={item.location ?? item.address} />
        </h3>
        <AsItIsNow of={item} />
        {text !== null && (
          <CopyButton className="button button-small" text={text}>
            Copy row
          </CopyButton>
        )}
        <button type="button" className="button button-small button-quiet" onClick={onClose}>
          Close
        </button>
      </div>
      {text === null ? (
        <p className="raw-changed">No text is shown of this row.</p>
      ) : columns?.valuesOf(text) == null ? (
        <p className="row-text">{text}</p>
      ) : (
        <RowFields columns={columns} text={text} />
      )}
    </section>
  );
}
