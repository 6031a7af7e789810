// Prints what the build weighs, and fails where a reader would have to wait for too much JavaScript.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const FOLDER = new URL('../../src/lineage_query_api/web/static/', import.meta.url).pathname;
const LIMIT_KB = 500;
/** Workers load beside the page, when a graph is drawn; the document of the API on its own page. */
const LATER = /worker|ApiReference/;

const files = readdirSync(FOLDER, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name))
  .map((path) => {
    const content = readFileSync(path);
    return {
      name: path.slice(FOLDER.length),
      size: content.length,
      zipped: gzipSync(content).length,
    };
  })
  .sort((a, b) => b.zipped - a.zipped);

const kb = (bytes) => `${(bytes / 1000).toFixed(1)} kB`.padStart(10);
for (const { name, size, zipped } of files)
  console.log(`${kb(size)} ${kb(zipped)} gzipped  ${name}`);

const scripts = files.filter(({ name }) => name.endsWith('.js') && !LATER.test(name));
const total = scripts.reduce((sum, { zipped }) => sum + zipped, 0);
console.log(
  `JavaScript without the layout workers and the document of the API: ${kb(total).trim()} gzipped (limit ${LIMIT_KB} kB)`,
);
if (total > LIMIT_KB * 1000) process.exit(1);
