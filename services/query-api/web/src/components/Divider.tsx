import { useRef, useState, type PointerEvent } from 'react';

const KEY = 'lineage.panel';
const STEP = 40;
/** The part of the window that it takes until it is moved; as in the style sheet. */
const USUAL = 0.4;
const NARROWEST = 360;
const LEFT_FOR_THE_REST = 240;

/** Between the graph and the panel on its right: drag it, or move it with the arrow keys. */
export function Divider() {
  const line = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(remembered);
  const change = (wanted: number) => {
    const all = line.current?.parentElement?.clientWidth ?? window.innerWidth;
    const next = Math.round(Math.min(Math.max(wanted, NARROWEST), all - LEFT_FOR_THE_REST));
    setWidth(next);
    remember(next);
  };
  const onPointerMove = (event: PointerEvent<HTMLElement>) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const right = event.currentTarget.parentElement?.getBoundingClientRect().right ?? 0;
    change(right - event.clientX);
  };
  return (
    <div
      ref={line}
      className="divider"
      role="separator"
      aria-label="Width of the details"
      aria-orientation="vertical"
      aria-valuemin={NARROWEST}
      aria-valuemax={window.innerWidth}
      aria-valuenow={width ?? Math.round(USUAL * window.innerWidth)}
      tabIndex={0}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={onPointerMove}
      onKeyDown={(event) => {
        const step = event.key === 'ArrowLeft' ? STEP : event.key === 'ArrowRight' ? -STEP : 0;
        const panel = line.current?.nextElementSibling;
        if (step === 0 || panel == null) return;
        event.preventDefault();
        change(panel.clientWidth + step);
      }}
    />
  );
}

function remembered(): number | null {
  try {
    const width = Number(localStorage.getItem(KEY));
    if (width < NARROWEST) return null;
    show(width);
    return width;
  } catch {
    return null;
  }
}

function remember(width: number): void {
  show(width);
  try {
    localStorage.setItem(KEY, String(width));
  } catch {
    // Storage may be forbidden: the width then lasts until the page is loaded again.
  }
}

function show(width: number): void {
  document.documentElement.style.setProperty('--panel', `${width}px`);
}
