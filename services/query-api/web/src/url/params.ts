/** The query of page addresses: flat, without quotes or brackets, lists as repeated names. */

export type Params = Record<string, unknown>;

export function parseParams(query: string): Record<string, string | string[]> {
  const params: Record<string, string | string[]> = {};
  for (const [name, value] of new URLSearchParams(query)) {
    const before = params[name];
    if (before === undefined) params[name] = value;
    else params[name] = Array.isArray(before) ? [...before, value] : [before, value];
  }
  return params;
}

export function formatParams(params: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params) as [string, unknown][]) {
    for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (one !== undefined && one !== null && one !== '' && one !== false) {
        query.append(name, typeof one === 'boolean' ? '1' : `${one as string | number}`);
      }
    }
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

export function text(value: unknown): string | undefined {
  const one: unknown = Array.isArray(value) ? value[0] : value;
  return typeof one === 'string' && one !== '' ? one : undefined;
}

export function texts(value: unknown): string[] | undefined {
  const all = (Array.isArray(value) ? (value as unknown[]) : [value]).filter(
    (one): one is string => typeof one === 'string' && one !== '',
  );
  return all.length > 0 ? [...new Set(all)] : undefined;
}

export function oneOf<T extends string>(value: unknown, choices: readonly T[]): T | undefined {
  return choices.find((choice) => choice === text(value));
}
