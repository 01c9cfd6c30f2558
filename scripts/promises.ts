import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * Every numbered rule of the rule pages has a test that carries its number. Rules are `**B12**` in docs/, tests are
 * titles that begin with the number, or name it in brackets. Where a rule promises what the program does, the test is
 * in test/e2e (it drives the program on a real engine; the fake one proves nothing about an engine). The rules of the
 * OCI library are promised to whoever imports it: their tests are in src/oci, or in test/e2e.
 */
const root = join(import.meta.dirname, '..');
const program = [join(root, 'test/e2e')];
const library = [join(root, 'src/oci'), join(root, 'test/e2e')];
const pages = [
  { page: 'docs/bundle.md', letter: 'B', folders: program },
  { page: 'docs/security.md', letter: 'S', folders: program },
  { page: 'docs/conformance.md', letter: 'R', folders: library },
  { page: 'docs/layers.md', letter: 'L', folders: library },
  { page: 'docs/store.md', letter: 'K', folders: library },
];

const titles = /\b(?:it|test)(?:\.each\([^)]*\))?\(\s*['"`]([^'"`]*)/g;

const rules = new Map<string, string>();
for (const { page, letter } of pages) {
  for (const [index, line] of readFileSync(join(root, page), 'utf8').split('\n').entries()) {
    const rule = /^- \*\*([A-Z]\d+)\*\* /.exec(line)?.[1];
    if (rule === undefined) continue;
    if (!rule.startsWith(letter)) fail(`${page}:${index + 1}: the rules of this page begin with ${letter}`);
    if (rules.has(rule)) fail(`${page}:${index + 1}: ${rule} stands there twice`);
    rules.set(rule, `${page}:${index + 1}`);
  }
}

const tested = new Set<string>();
for (const { letter, folders } of pages) {
  const number = new RegExp(`\\b${letter}\\d+\\b`, 'g');
  for (const file of folders.flatMap(testFiles)) {
    for (const [, title] of readFileSync(file, 'utf8').matchAll(titles)) {
      for (const [rule] of (title ?? '').matchAll(number)) {
        if (!rules.has(rule)) fail(`${relative(root, file)}: a test carries ${rule}, which no page has`);
        tested.add(rule);
      }
    }
  }
}

let missing = 0;
for (const [rule, place] of rules) {
  if (tested.has(rule)) continue;
  missing += 1;
  console.error(`${place}: ${rule} has no test that carries its number`);
}
console.log(`${rules.size} rules, ${rules.size - missing} with a test`);
if (missing > 0) process.exitCode = 1;

function testFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.test.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}
