import type { ReactNode } from 'react';

interface Props {
  title: string;
  detail?: string;
  closing: string;
  onClose: () => void;
  children?: ReactNode;
}

/** The head of the side panel: what it shows, and how to close it. */
export function PanelHead({ title, detail, closing, onClose, children }: Props) {
  return (
    <div className="panel-head">
      <div className="panel-title">
        <h2 title={title} tabIndex={-1}>
          {title}
        </h2>
        {detail !== undefined && <p className="faint">{detail}</p>}
      </div>
      {children}
      <button
        type="button"
        className="button button-quiet button-icon"
        aria-label={closing}
        title={`${closing} (Esc)`}
        onClick={onClose}
      >
        <svg viewBox="0 0 16 16" aria-hidden>
          <path d="m4 4 8 8M12 4l-8 8" />
        </svg>
      </button>
    </div>
  );
}
