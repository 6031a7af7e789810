const whole = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' });

/** 424037 as "424,037". */
export const count = (value: number) => whole.format(value);

/** 424037 as "424K", for where there is little room. */
export const shortCount = (value: number) => compact.format(value);

/** "1 row", "2 rows". */
export const counted = (value: number, one: string, many = `${one}s`) =>
  `${count(value)} ${value === 1 ? one : many}`;

/** A time of the API (RFC 3339) on the reader's clock. */
export const time = (at: string) => moment.format(new Date(at));

/** The seconds between two times of the API. */
export const elapsed = (from: string, to: string) => (Date.parse(to) - Date.parse(from)) / 1000;

/** How long something took: "850 ms", "12.4 s", "3 min 5 s", "2 h 10 min". */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(Math.max(seconds, 0) * 1000)} ms`;
  if (seconds < 60) return `${Number(seconds.toFixed(1))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const SIZES = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** 31406 as "31.4 kB". */
export function size(bytes: number): string {
  if (bytes === 1) return '1 byte';
  const power = Math.min(Math.max(Math.floor(Math.log10(bytes) / 3), 0), SIZES.length - 1);
  return `${Number((bytes / 1000 ** power).toFixed(1))} ${SIZES[power]}`;
}

/** "2 rows, 31.4 kB", as far as both are known. */
export function amount(of: { rows?: number | null; bytes?: number | null }): string {
  const parts = [];
  if (of.rows != null) parts.push(counted(of.rows, 'row'));
  if (of.bytes != null) parts.push(size(of.bytes));
  return parts.join(', ') || 'an unknown amount';
}
