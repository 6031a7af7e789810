/** An answer that is an error, as the service gives it (`application/problem+json`). */
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
    const fields = await body(response);
    return new Problem(
      response.status,
      text(fields.title) ?? `The server answered ${response.status}`,
      text(fields.detail) ?? response.statusText,
      text(fields.hint),
      text(fields.request_id) ?? response.headers.get('X-Request-Id'),
    );
  }

  /** One that comes in a stream, after its status was sent. */
  static inStream(fields: Record<string, unknown>): Problem {
    return new Problem(
      typeof fields.status === 'number' ? fields.status : 500,
      text(fields.title) ?? 'The answer ended',
      text(fields.detail) ?? '',
      text(fields.hint),
      text(fields.request_id),
    );
  }
}

async function body(response: Response): Promise<Record<string, unknown>> {
  try {
    const parsed: unknown = await response.json();
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
