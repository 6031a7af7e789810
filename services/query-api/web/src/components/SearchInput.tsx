import { useEffect, useRef, useState } from 'react';

const PAUSE_MS = 300;

interface Props {
  label: string;
  value: string;
  placeholder: string;
  onChange: (value: string) => void;
}

/** A field that reports what was typed once the typing pauses. `/` leads here from anywhere. */
export function SearchInput({ label, value, placeholder, onChange }: Props) {
  const [typed, setTyped] = useState(value);
  const reported = useRef(value);
  // The address of the page may change by itself, as by the back button.
  useEffect(() => {
    if (value !== reported.current) {
      reported.current = value;
      setTyped(value);
    }
  }, [value]);
  const report = (words: string) => {
    if (words === reported.current) return;
    reported.current = words;
    onChange(words);
  };
  const latest = useRef(report);
  useEffect(() => {
    latest.current = report;
  });
  useEffect(() => {
    const timer = setTimeout(() => latest.current(typed), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input
      type="search"
      className="input"
      data-search
      aria-label={label}
      placeholder={placeholder}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') report(typed);
        if (event.key === 'Escape' && typed !== '') {
          event.stopPropagation();
          setTyped('');
          report('');
        }
      }}
    />
  );
}
