import { count, time } from '../lib/format';

const SHOWN = 3;
const OFFSETS = /^\d+:\d+-\d+( \d+:\d+-\d+)*$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** What a run read or wrote of a dataset: versions of a table, times of a database's, or offsets of a topic; the latest first. */
export function shownVersions(versions: string[]): string {
  const latest = versions.toReversed().slice(0, SHOWN).map(shownVersion);
  const more = versions.length - latest.length;
  return latest.join(', ') + (more > 0 ? ` and ${count(more)} more` : '');
}

function shownVersion(version: string): string {
  if (OFFSETS.test(version)) return `offsets ${version}`;
  if (TIME.test(version)) return `at ${time(version)}`;
  return `version ${version}`;
}
