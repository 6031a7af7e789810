/** An answer that is an error, as the service told it (`application/problem+json`). */
export class Problem extends Error {
  override readonly name = 'Problem';

  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly hint: string | null,
    readonly requestId: string | null,
  ) {
    super(detail || title);
  }

  static unreachable(): Problem {
    return new Problem(
      0,
      'The server does not answer',
      'The request did not get through.',
      'See that the query API is running and reachable, then try again.',
      null,
    );
  }

  /** What a response says of itself; other servers on the way (proxies) answer without a body. */
  static async of(response: Response): Promise<Problem> {
    const told = await body(response);
    return new Problem(
      response.status,
      text(told.title) ?? `The server answered ${response.status}`,
      text(told.detail) ?? response.statusText,
      text(told.hint),
      text(told.request_id) ?? response.headers.get('X-Request-Id'),
    );
  }
}

async function body(response: Response): Promise<Record<string, unknown>> {
  try {
    const told: unknown = await response.json();
    return typeof told === 'object' && told !== null ? (told as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
