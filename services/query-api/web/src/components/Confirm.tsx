import { useEffect, useRef, type ReactNode } from 'react';

interface Props {
  title: string;
  /** What the button that does it says. */
  doing: string;
  busy: boolean;
  onDo: () => void;
  onClose: () => void;
  children: ReactNode;
}

/** Asks before something that can't be undone; Esc and "Keep it" close it. */
export function Confirm({ title, doing, busy, onDo, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      className="dialog"
      aria-label={title}
      onClose={onClose}
      // Esc is the dialog's alone: on the page it closes what is open there.
      onKeyDown={(event) => event.stopPropagation()}
    >
      <h2>{title}</h2>
      {children}
      <div className="dialog-buttons">
        <button type="button" className="button" autoFocus onClick={onClose}>
          Keep it
        </button>
        <button
          type="button"
          className="button button-bad"
          disabled={busy}
          aria-busy={busy}
          onClick={onDo}
        >
          {doing}
        </button>
      </div>
    </dialog>
  );
}
