/** The query API over made-up programs, as middleware. */

import type { IncomingMessage, ServerResponse } from 'node:http';

import type {
  App,
  AppDetail,
  DeadLetters,
  Diff,
  Graph,
  GraphNode,
  Item,
  Progress,
  RowsAround,
  SuspectTasks,
  Suspects,
  TraceRequest,
} from '../src/api/types';
import type { SuspectsQuestion } from '../src/api/lineage';
import { applications } from './applications.ts';
import { deadLetters } from './letters.ts';
import { dice, type Program } from './program.ts';
import { NoSuchPlace, counts, itemsOf, refOf, traced, type Answer } from './tracing.ts';

/** Set, the mock asks for this token; `MOCK_ROWS=no` takes the right to see rows. */
const TOKEN = process.env.MOCK_TOKEN;
const ROWS = process.env.MOCK_ROWS !== 'no';
/** Rows that a search looks at in one call. */
const SCAN = 50_000;

class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly hint?: string,
  ) {
    super(detail);
  }
}

interface Call {
  method: string;
  query: URLSearchParams;
  body: unknown;
}

type Handler = (call: Call, ...words: string[]) => unknown;

export function mockService() {
  const programs = applications();
  const answers = new Map<string, Answer>();
  const started = Date.now();
  const requestIds = dice(11);

  const program = (app: string): Program => {
    if (app === 'latest' && programs[0]) return programs[0];
    const found = programs.filter((one) => one.detail.app === app);
    const [first, second] =
      found.length > 0 ? found : programs.filter((one) => one.detail.app.startsWith(app));
    if (first === undefined || second !== undefined) {
      throw new Refusal(
        404,
        'No such application',
        `No application is called ${app}.`,
        'lineage apps lists those that there are.',
      );
    }
    return first;
  };

  const answer = (id: string): Answer => {
    let known = answers.get(id);
    if (known === undefined) {
      const query = decoded(id);
      try {
        known = traced(program(query.app), id, query.request);
      } catch (error) {
        if (error instanceof NoSuchPlace) {
          throw new Refusal(
            404,
            'No such place',
            `${error.message} is no row of ${query.app}.`,
            'Rows are named as grep -n prints them.',
          );
        }
        throw error;
      }
      answers.set(id, known);
    }
    return known;
  };
  const asked = (app: string, request: TraceRequest) =>
    answer(
      Buffer.from(JSON.stringify({ app: program(app).detail.app, request })).toString('base64url'),
    );
  const backOf = (app: string, places: string[]) =>
    places.map((place) =>
      asked(app, {
        direction: 'backward',
        start: { places: [place] },
        until: 'ends',
        steps: null,
      }),
    );

  const routes: [string, RegExp, Handler][] = [
    [
      'GET',
      /^\/me$/,
      () => ({
        name: TOKEN === undefined ? 'local' : 'ann',
        role: 'admin',
        rows: ROWS,
        delete: true,
        auth: TOKEN === undefined ? 'none' : 'token',
      }),
    ],
    ['GET', /^\/spark$/, () => ({ state: 'off', tasks: 0, tasks_done: 0 })],
    ['GET', /^\/sign-in$/, () => ({ oidc: null })],
    ['GET', /^\/applications$/, ({ query }) => listApplications(programs, query)],
    ['GET', /^\/applications\/([^/]+)$/, (_, app) => detailOf(program(app))],
    [
      'DELETE',
      /^\/applications\/([^/]+)$/,
      (_, app) => {
        programs.splice(programs.indexOf(program(app)), 1);
        return null;
      },
    ],
    ['GET', /^\/dead-letters$/, ({ query }) => listLetters(query)],
    ['GET', /^\/applications\/([^/]+)\/completeness$/, (_, app) => completeness(program(app))],
    [
      'GET',
      /^\/applications\/([^/]+)\/graph$/,
      ({ query }, app) => graphOf(program(app), query.get('unfold') === 'true'),
    ],
    [
      'GET',
      /^\/applications\/([^/]+)\/nodes\/([^/]+)\/items$/,
      ({ query }, app, node) => nodeItems(program(app), node, query),
    ],
    [
      'GET',
      /^\/applications\/([^/]+)\/progress$/,
      (_, app) => progressOf(program(app), Date.now() - started),
    ],
    ['GET', /^\/applications\/([^/]+)\/rows$/, ({ query }, app) => rowsAround(program(app), query)],
    [
      'POST',
      /^\/applications\/([^/]+)\/traces$/,
      ({ body }, app) => withTexts(asked(app, body as TraceRequest).trace),
    ],
    [
      'POST',
      /^\/applications\/([^/]+)\/diff$/,
      ({ body }, app) => {
        const { left, right } = body as { left: TraceRequest; right: TraceRequest };
        return difference(program(app), asked(app, left), asked(app, right));
      },
    ],
    [
      'POST',
      /^\/applications\/([^/]+)\/suspects$/,
      ({ body }, app) => {
        const { places, good, limit } = body as SuspectsQuestion;
        return suspects(program(app), backOf(app, places), backOf(app, good), limit);
      },
    ],
    [
      'POST',
      /^\/answers\/suspects$/,
      ({ body }) => {
        const { app, places, good } = body as SuspectsQuestion & { app: string };
        return suspectTasks(program(app), backOf(app, places), places, good);
      },
    ],
    ['GET', /^\/traces\/([^/]+)$/, (_, id) => withTexts(answer(id).trace)],
    [
      'GET',
      /^\/traces\/([^/]+)\/nodes\/([^/]+)\/items$/,
      ({ query }, id, node) => traceItems(program(decoded(id).app), answer(id), node, query),
    ],
    [
      'GET',
      /^\/traces\/([^/]+)\/(?:export|items\.ndjson)$/,
      (_, id) => withTexts(answer(id).trace).groups,
    ],
  ];

  return (request: IncomingMessage, response: ServerResponse, next: () => void): void => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    if (!url.pathname.startsWith('/v1/')) {
      next();
      return;
    }
    const requestId = `r-${Math.floor(requestIds() * 2 ** 32)
      .toString(16)
      .padStart(8, '0')}`;
    const send = (status: number, content: unknown, type = 'application/json') => {
      response.writeHead(status, { 'Content-Type': type, 'X-Request-Id': requestId });
      response.end(JSON.stringify(content));
    };
    bodyOf(request)
      .then((body) => {
        const open = url.pathname === '/v1/sign-in';
        if (!open && TOKEN !== undefined && request.headers.authorization !== `Bearer ${TOKEN}`) {
          throw new Refusal(
            401,
            'Not logged in',
            'This server asks for a token.',
            'Send Authorization: Bearer TOKEN.',
          );
        }
        const path = url.pathname.slice('/v1'.length);
        for (const [method, pattern, handler] of routes) {
          const match = pattern.exec(path);
          if (match === null || method !== request.method) continue;
          send(
            200,
            handler(
              { method, query: url.searchParams, body },
              ...match.slice(1).map(decodeURIComponent),
            ),
          );
          return;
        }
        throw new Refusal(
          404,
          'No such call',
          `${request.method ?? ''} ${url.pathname} is not part of the API.`,
        );
      })
      .catch((error: unknown) => {
        const refusal =
          error instanceof Refusal ? error : new Refusal(500, 'The mock failed', String(error));
        send(
          refusal.status,
          {
            type: 'about:blank',
            title: refusal.title,
            status: refusal.status,
            detail: refusal.detail,
            hint: refusal.hint,
            request_id: requestId,
          },
          'application/problem+json',
        );
      });
  };
}

function listApplications(programs: Program[], query: URLSearchParams) {
  const search = (query.get('search') ?? '').toLowerCase();
  const [status, complete] = [query.get('status'), query.get('complete')];
  const found = programs
    .map(({ detail }) => detail)
    .filter(
      (app) =>
        (app.name.toLowerCase().includes(search) || app.app.includes(search)) &&
        (status === null || app.status === status) &&
        (complete === null || String(app.complete) === complete),
    );
  const { from, limit } = pageOf(query, 50);
  const items: App[] = found.slice(from, from + limit);
  return {
    items,
    next: from + limit < found.length ? String(from + limit) : null,
    total: found.length,
    searched: found.length,
    searched_of: found.length,
    withheld: 0,
  };
}

function listLetters(query: URLSearchParams): DeadLetters {
  const found = deadLetters().filter(
    ({ app }) => query.get('app') === null || app === query.get('app'),
  );
  return { items: found.slice(0, Number(query.get('limit') ?? 100)), total: found.length };
}

function detailOf(program: Program): AppDetail {
  const ends = (kind: string) =>
    program.nodes.filter((n) => n.kind === kind).map((n) => refOf(program, n.node));
  return {
    ...program.detail,
    nodes: program.nodes.length,
    sources: ends('source'),
    sinks: ends('sink'),
  };
}

function completeness({ detail, nodes }: Program) {
  const missing = detail.complete ? 0 : 4;
  return {
    app: detail.app,
    complete: detail.complete,
    final: detail.final,
    status: detail.status,
    tasks: { expected: 8, committed: 8 },
    blocks: { expected: 61, received: 61 - missing, linked: 61 - missing },
    reasons: detail.reasons,
    unknown: [],
    superset: Object.fromEntries(nodes.filter((n) => !n.exact).map((n) => [n.node, [n.reason]])),
  };
}

function graphOf(program: Program, unfold: boolean): Graph {
  const { app } = program.detail;
  if (unfold) {
    return {
      app,
      nodes: program.nodes.map((n) => ({ ...n, members: [n.node] })),
      links: program.links,
    };
  }
  const first = new Map(program.nodes.map((n) => [n.node, n.members[0] ?? n.node]));
  const nodes = program.nodes
    .filter((n) => n.members[0] === n.node)
    .map((n): GraphNode => ({ ...n, flows: n.flows * n.members.length }));
  const links = new Map(
    program.links.map(({ src, dest }) => {
      const link = { src: first.get(src) ?? src, dest: first.get(dest) ?? dest };
      return [`${link.src} ${link.dest}`, link];
    }),
  );
  return { app, nodes, links: [...links.values()] };
}

function nodeItems(program: Program, node: string, query: URLSearchParams) {
  const items = program.items.get(node);
  const search = query.get('search');
  const partition = query.get('partition');
  const { from, limit } = pageOf(query, 100);
  const all = items?.count ?? 0;
  const found: Item[] = [];
  let at = from;
  for (; at < all && found.length < limit && at - from < SCAN; at += 1) {
    const item = items?.at(at);
    if (item === undefined) break;
    if (search !== null && !item.text?.includes(search)) continue;
    if (partition !== null && !new RegExp(`[#@]${partition}#`).test(item.address)) continue;
    found.push(item);
  }
  const done = at >= all;
  return {
    ...refOf(program, node),
    count: all,
    items: found.map(shown),
    next: done ? null : String(at),
    scanned: at - from,
  };
}

function traceItems(program: Program, answer: Answer, node: string, query: URLSearchParams) {
  const found = answer.passed.get(node) ?? answer.groups.get(node) ?? answer.start.get(node);
  if (found === undefined)
    throw new Refusal(404, 'Not in this trace', `No item of node ${node} takes part.`);
  const { from, limit } = pageOf(query, 100);
  return {
    node,
    label: refOf(program, node).label,
    count: found.size,
    items: itemsOf(program, node, found, from, limit).map(shown),
    next: from + limit < found.size ? String(from + limit) : null,
  };
}

function rowsAround(program: Program, query: URLSearchParams): RowsAround {
  if (!ROWS)
    throw new Refusal(
      403,
      'No right to see rows',
      'You may trace rows, but not see what they say.',
      'Ask for a token with the right rows.',
    );
  const place = program.find(query.get('address') ?? query.get('location') ?? '');
  const items = place === null ? undefined : program.items.get(place.node);
  if (place === null || items === undefined)
    throw new Refusal(404, 'No such row', 'This row lies in no file.');
  const around = Number(query.get('around') ?? 3);
  const path = fileOf(items.at(place.index));
  const rows = [];
  for (
    let index = Math.max(0, place.index - around);
    index <= Math.min(items.count - 1, place.index + around);
    index += 1
  ) {
    const item = items.at(index);
    if (fileOf(item) !== path) continue;
    rows.push({
      number: Number(item.location?.split(':').at(-1) ?? 0),
      location: item.location ?? '',
      text: item.text,
      asked: index === place.index,
      address: item.address,
    });
  }
  return { path, unit: 'line', changed: false, standing: 'same', note: '', rows };
}

function difference(program: Program, left: Answer, right: Answer): Diff {
  const nodes = new Set([...left.groups.keys(), ...right.groups.keys()]);
  const groups = [...nodes].map((node) => {
    const [a, b] = [
      left.groups.get(node) ?? new Set<number>(),
      right.groups.get(node) ?? new Set<number>(),
    ];
    const only = (x: Set<number>, y: Set<number>) => {
      const rest = new Set([...x].filter((index) => !y.has(index)));
      return { count: rest.size, items: itemsOf(program, node, rest, 0, 20).map(shown) };
    };
    const { label, path } = refOf(program, node);
    return {
      node,
      label,
      path,
      only_left: only(a, b),
      only_right: only(b, a),
      both: [...a].filter((i) => b.has(i)).length,
    };
  });
  const side = ({ trace: { trace, count, start } }: Answer) => ({ trace, count, start });
  const exact = left.trace.exact && right.trace.exact;
  return {
    left: side(left),
    right: side(right),
    exact,
    complete: true,
    reasons: [...new Set([...left.trace.reasons, ...right.trace.reasons])],
    groups,
    changed: false,
    warnings: [],
  };
}

function suspects(program: Program, bad: Answer[], good: Answer[], limit: number): Suspects {
  const [outputs, others] = [inputsOf(bad), inputsOf(good)];
  const score = (key: string) => {
    const of = outputs.get(key) ?? 0;
    return of / Math.sqrt(bad.length * (of + (others.get(key) ?? 0)));
  };
  const ranked = [...outputs]
    .filter(
      ([key, of]) => good.length === 0 || of * good.length > (others.get(key) ?? 0) * bad.length,
    )
    .map(([key]) => key)
    .sort((a, b) => score(b) - score(a));
  const items = ranked.slice(0, limit).flatMap((key) => {
    const [node = '', index] = key.split(' ');
    const item = program.items.get(node)?.at(Number(index));
    return item === undefined
      ? []
      : [
          {
            ...shown(item),
            node,
            label: refOf(program, node).label,
            outputs: outputs.get(key) ?? 0,
            good_outputs: others.get(key) ?? 0,
            rank: 1 + ranked.filter((other) => score(other) > score(key)).length,
            tied: ranked.filter((other) => score(other) === score(key)).length,
            score: score(key),
          },
        ];
  });
  const answers = [...bad, ...good];
  return {
    outputs: bad.length,
    good: good.length,
    items,
    total: outputs.size,
    suspected: ranked.length,
    exact: answers.every(({ trace }) => trace.exact),
    complete: true,
    reasons: [...new Set(answers.flatMap(({ trace }) => trace.reasons))],
    changed: false,
    warnings: [],
  };
}

/** How many of some answers each input is of. */
function inputsOf(answers: Answer[]): Map<string, number> {
  const outputs = new Map<string, number>();
  for (const { groups } of answers) {
    for (const [node, found] of groups) {
      for (const index of found) {
        const key = `${node} ${index}`;
        outputs.set(key, (outputs.get(key) ?? 0) + 1);
      }
    }
  }
  return outputs;
}

function suspectTasks(
  program: Program,
  bad: Answer[],
  places: string[],
  good: string[],
): SuspectTasks {
  const passed = new Set(bad.flatMap(({ trace }) => trace.passed.map(({ node }) => node)));
  const tasks = [...passed].map((node, at) => ({
    node,
    name: refOf(program, node).label,
    partition: 0,
    operators: `its input to ${refOf(program, node).label}`,
    outputs: bad.length,
    good_outputs: 0,
    deviations: [],
    rank: at + 1,
    tied: 1,
    score: 1 / (at + 1),
  }));
  return {
    ...suspects(program, bad, [], 0),
    app: program.detail.app,
    from: places,
    good,
    items: [],
    formula: 'ochiai',
    tasks,
    tasks_total: tasks.length,
    keys: [],
    keys_total: 0,
  };
}

function progressOf({ detail }: Program, elapsed: number): Progress {
  const part = detail.final ? 1 : 0.35 + 0.6 * ((elapsed / 60_000) % 1);
  return {
    app: detail.app,
    status: detail.status,
    final: detail.final,
    complete: detail.complete,
    capture: { tasks: Math.floor(48 * part), tasks_expected: 48 },
    link: {
      blocks_expected: 61,
      blocks_received: Math.floor(61 * part),
      blocks_linked: Math.floor(55 * part),
    },
    write: { blocks: Math.floor(61 * part), flows: Math.floor(detail.flows * part) },
    updated_at: new Date().toISOString(),
  };
}

const shown = (item: Item): Item => (ROWS ? item : { ...item, text: null });

function withTexts<
  T extends { start: ReturnType<typeof counts>; groups: ReturnType<typeof counts> },
>(trace: T): T {
  const each = (groups: ReturnType<typeof counts>) =>
    groups.map((g) => ({ ...g, items: g.items.map(shown) }));
  return { ...trace, start: each(trace.start), groups: each(trace.groups) };
}

const fileOf = (item: Item) => (item.location ?? '').replace(/:\d+$/, '');

function pageOf(query: URLSearchParams, usual: number) {
  return { from: Number(query.get('cursor') ?? 0), limit: Number(query.get('limit') ?? usual) };
}

function decoded(id: string): { app: string; request: TraceRequest } {
  try {
    return JSON.parse(Buffer.from(id, 'base64url').toString()) as {
      app: string;
      request: TraceRequest;
    };
  } catch {
    throw new Refusal(
      404,
      'No such trace',
      'This is not the id of a trace.',
      'Start it again from its row.',
    );
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? null : (JSON.parse(text) as unknown);
}
