import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorTables } from './error-page.ts';

/**
 * Every error code has a test in test/e2e that provokes it through the program: one whose title begins with the code
 * (`it('STATE_FUTURE …')`) and whose file names it once more, as a title alone asserts nothing; a row
 * `code: 'STATE_FUTURE'` of a table whose titles begin with `$code`; or the literal in a file whose tests
 * look at the program's exit code and words with `expectCode`, `expectError` or `expectRefused`.
 */
const folder = join(import.meta.dirname, '../test/e2e');

/** Codes that no input can provoke, and why they are there all the same. */
const unprovoked: Readonly<Record<string, string>> = {
  INTERNAL: 'a fault of Skycap itself: an input that provokes it has found one',
  SECRET_SOURCE_REFUSED: 'no command hands in a source from a record; the room refuses it for who will',
  OCI_BLOB_INCOMPLETE:
    'the registry client says REGISTRY_TRUNCATED first; a store that others feed is told it',
  EXPRESSION_SYNTAX: 'lint refuses the file first; the plan looks again',
  EXPRESSION_SCOPE: 'lint refuses the file first; the plan looks again',
  SCRIPT_PLACE: 'lint refuses the file first, with the entrypoint that the lock holds; the plan looks again',
  ENGINE_RUN_INVALID: 'lint and plan make no such container; each engine looks again',
  ENGINE_CONTAINER_UNKNOWN: 'only containers of our own records are asked for',
  ENGINE_ARCHIVE_INVALID:
    'archives for workspaces are our own, and saved ones are sealed: STATE_CORRUPT comes first',
  STATE_CONFLICT: 'the lock of an installation keeps two commands from making one name at once',
  STATE_TOO_LARGE:
    'outputs end at 256 MiB, which is ENGINE_OUTPUT_TOO_LARGE, and parameters where memory does',
  STATE_NETWORK_FS:
    'wants a network file system to be mounted; src/state/sqlite/directory.test.ts has a stand-in',
};

const titles = /\b(?:it|test)(?:\.\w+)*(?:\([^()]*\))?\(\s*['"`]((?:[A-Z][A-Z0-9_]+ )+)/g;
const literals = /'([A-Z][A-Z0-9]*_[A-Z0-9_]+)'/g;
const rows = /\bcode: '([A-Z][A-Z0-9_]+)'/g;

const tested = new Set<string>();
for (const name of readdirSync(folder).filter((file) => file.endsWith('.test.ts'))) {
  const source = readFileSync(join(folder, name), 'utf8');
  for (const [, codes = ''] of source.matchAll(titles)) {
    for (const code of codes.trim().split(' ')) {
      if (source.split(new RegExp(`\\b${code}\\b`)).length > 2) tested.add(code);
    }
  }
  if (/\bexpect(?:Code|Error|Refused)\(/.test(source)) {
    for (const [, code] of source.matchAll(literals)) tested.add(code as string);
  }
  if (!/\bit(?:\.\w+)*\.each\([^)]*\)\(\s*['"`]\$code/.test(source)) continue;
  for (const [, code] of source.matchAll(rows)) tested.add(code as string);
}

const codes = (await errorTables()).flatMap(({ table }) => Object.keys(table));
const untested = codes.filter((code) => !tested.has(code) && !Object.hasOwn(unprovoked, code));
for (const code of untested) console.error(`${code}: no test in test/e2e provokes it through the program`);
const stale = Object.keys(unprovoked).filter((code) => !codes.includes(code) || tested.has(code));
for (const code of stale) console.error(`${code}: is listed as not to be provoked, and is tested or gone`);
console.log(`${codes.length} error codes, ${codes.length - untested.length} with a test or a reason`);
if (untested.length + stale.length > 0) process.exitCode = 1;
