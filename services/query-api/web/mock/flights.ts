/** Mean delays by carrier: flights-*.csv, map, reduceByKey, map, saveAsTextFile. */

import type { Item, Status } from '../src/api/types';
import {
  Derivations,
  chained,
  dice,
  ended,
  finder,
  listed,
  made,
  shuffled,
  type Items,
  type Program,
} from './program.ts';
import { aTime } from '../src/testing/samples.ts';

const CARRIERS = [
  ['AA', 'American Airlines Inc.'],
  ['B6', 'JetBlue Airways'],
  ['DL', 'Delta Air Lines Inc.'],
  ['EV', 'ExpressJet Airlines Inc.'],
  ['HA', 'Hawaiian Airlines Inc.'],
  ['MQ', 'Envoy Air'],
  ['UA', 'United Air Lines Inc.'],
  ['US', 'US Airways Inc.'],
  ['VX', 'Virgin America'],
  ['WN', 'Southwest Airlines Co.'],
] as const;
const DESTINATIONS = ['ATL', 'BOS', 'CLT', 'DEN', 'FLL', 'IAH', 'LAX', 'MCO', 'ORD', 'SFO'];
const ORIGINS = ['EWR', 'JFK', 'LGA'];
const FILES = 4;
const SPREAD = 0x9e3779b1;

interface Flight {
  carrier: string;
  delay: number;
  day: string;
}

interface Options {
  app: string;
  status: Status;
  startedAt: number;
  flightsPerFile: number;
  seed: number;
  /** Of a job that is under way: tasks of the last stage are not there yet. */
  unfinished?: boolean;
  reasons?: string[];
  exact?: boolean;
}

export function flights(options: Options): Program {
  const random = dice(options.seed);
  const derived = new Derivations();
  const read: Item[] = [];
  const parsed: Flight[] = [];
  for (let file = 0; file < FILES; file += 1) {
    for (let line = 0; line < options.flightsPerFile; line += 1) {
      const flight = { ...aFlight(random), day: aDay(random) };
      parsed.push(flight);
      read.push({
        address: `read#${file}#${line}`,
        location: `data/flights-${file}.csv:${line + 1}`,
        text: csvLine(flight, random),
      });
    }
  }

  const sums = new Map<string, Flight[]>();
  const mapSide: Item[] = [];
  const reduceSide: Item[] = [];
  const names = new Map<string, string>(CARRIERS);
  const reduced: string[] = [];
  const slots = new Map<string, number>();
  parsed.forEach((flight, index) => {
    const file = Math.floor(index / options.flightsPerFile);
    const slot = `${file} ${flight.carrier}`;
    let at = slots.get(slot);
    if (at === undefined) {
      at = mapSide.length;
      slots.set(slot, at);
      mapSide.push({
        address: `2#${file}#${position(flight.carrier)}`,
        location: null,
        text: null,
      });
    }
    derived.add({ node: '2', index: at }, { node: '0', index });
    sums.set(flight.carrier, [...(sums.get(flight.carrier) ?? []), flight]);
  });
  for (const carrier of names.keys()) {
    const group = sums.get(carrier) ?? [];
    if (group.length === 0) continue;
    const index = reduceSide.length;
    reduced.push(carrier);
    reduceSide.push({
      address: `3@${index % 4}#${position(carrier)}`,
      location: null,
      text: `('${carrier}', (${total(group)}, ${group.length}))`,
    });
    for (let file = 0; file < FILES; file += 1) {
      const from = slots.get(`${file} ${carrier}`);
      if (from !== undefined) derived.add({ node: '3', index }, { node: '2', index: from });
    }
  }

  const written: Item[] = [];
  if (options.unfinished !== true) {
    reduced.forEach((carrier, index) => {
      const group = sums.get(carrier) ?? [];
      const name = names.get(carrier) ?? carrier;
      const worst = group.reduce((a, b) => (b.delay > a.delay ? b : a));
      const mean = (total(group) / group.length).toFixed(1);
      const partition = index % 4;
      const line = written.filter((one) => one.address.startsWith(`write#${partition}#`)).length;
      written.push({
        address: `write#${partition}#${line}`,
        location: `out/part-0000${partition}:${line + 1}`,
        text: `${mean} min late on average | flights ${group.length} | ${carrier} ${name} | worst ${worst.delay} min on ${worst.day}`,
      });
      derived.add({ node: '5', index }, { node: '3', index });
    });
  }

  const items = new Map<string, Items>([
    ['0', listed(read)],
    ['2', listed(mapSide)],
    ['3', listed(reduceSide)],
    ['5', listed(written)],
  ]);
  const flows = read.length + mapSide.length + written.length;
  const unfinished = options.unfinished === true;
  const exact = options.exact ?? true;
  const counted = (flows: number) => ({ flows, associations: flows });
  return {
    detail: ended(
      {
        app: options.app,
        name: 'flights',
        status: options.status,
        started_at: aTime(options.startedAt),
        flows,
        complete: options.reasons === undefined && !unfinished,
        final: !unfinished,
        exact,
        reasons: options.reasons ?? [],
        ...(unfinished && { ended_at: null }),
      },
      74.3,
    ),
    nodes: [
      made('0', 'textFile', 'job.py:18', { path: 'data/flights-*.csv', stage: '0' }),
      made('1', 'map', 'job.py:19', { stage: '0' }),
      ...shuffled('2', 'reduceByKey', 'job.py:20', [
        { stage: '0', has_items: true, ...counted(read.length) },
        {
          stage: '1',
          exact,
          reason: exact ? '' : 'keys of type Carrier are distinguished by hash(key)',
          ...counted(mapSide.length),
        },
      ]),
      made('4', 'map', 'job.py:21', { stage: '1' }),
      made('5', 'saveAsTextFile', 'job.py:22', {
        path: 'out',
        stage: '1',
        ...counted(written.length),
      }),
    ],
    links: chained(0, 1, 2, 3, 4, 5),
    items,
    parents: derived.parents,
    children: derived.children,
    find: finder(items),
  };
}

function aFlight(random: () => number): Omit<Flight, 'day'> {
  const carrier = CARRIERS[Math.floor(random() ** 1.6 * CARRIERS.length)]?.[0] ?? 'AA';
  const late = random();
  return { carrier, delay: Math.round(late > 0.97 ? 120 + random() * 660 : random() * 60 - 22) };
}

function aDay(random: () => number): string {
  const month = 1 + Math.floor(random() * 12);
  return `2013-${String(month).padStart(2, '0')}-${String(1 + Math.floor(random() * 28)).padStart(2, '0')}`;
}

function csvLine(flight: Flight, random: () => number): string {
  const [year, month, day] = flight.day.split('-').map(Number);
  const departs = 600 + Math.floor(random() * 16) * 100 + Math.floor(random() * 60);
  const origin = ORIGINS[Math.floor(random() * 3)] ?? 'JFK';
  const destination = DESTINATIONS[Math.floor(random() * DESTINATIONS.length)] ?? 'IAH';
  const number = 100 + Math.floor(random() * 1900);
  return [
    year,
    month,
    day,
    departs + flight.delay,
    departs,
    flight.delay,
    flight.carrier,
    number,
    `N${number}${flight.carrier}`,
    origin,
    destination,
    200 + Math.floor(random() * 2300),
  ].join();
}

const total = (group: Flight[]) => group.reduce((sum, flight) => sum + flight.delay, 0);

/** The position of a key, as 64 bit hashes look. */
const position = (key: string) =>
  String((BigInt(key.charCodeAt(0) * 251 + key.charCodeAt(1)) * BigInt(SPREAD) ** 2n) % 2n ** 63n);
