import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * Every numbered rule of the rule pages has a test that carries its number. Rules are `**B12**` in docs/, tests are
 * titles that begin with the number, or name it in brackets, in test/e2e (they drive the program on a real engine).
 * A rule that only other tests name is red: the fake engine proves nothing about an engine.
 */
const root = join(import.meta.dirname, '..');
const pages = ['docs/bundle.md', 'docs/security.md'];

const rules = new Map<string, string>();
for (const page of pages) {
  for (const [index, line] of readFileSync(join(root, page), 'utf8').split('\n').entries()) {
    const rule = /^- \*\*([A-Z]\d+)\*\* /.exec(line)?.[1];
    if (rule === undefined) continue;
    if (rules.has(rule)) fail(`${page}:${index + 1}: ${rule} stands there twice`);
    rules.set(rule, `${page}:${index + 1}`);
  }
}

const tested = new Map<string, string[]>();
for (const file of testFiles(join(root, 'test/e2e'))) {
  const source = readFileSync(file, 'utf8');
  for (const [, title] of source.matchAll(/\b(?:it|test)(?:\.each\([^)]*\))?\(\s*['"`]([^'"`]*)/g)) {
    for (const [rule] of (title ?? '').matchAll(/\b[BS]\d+\b/g)) {
      if (!rules.has(rule)) fail(`${relative(root, file)}: a test carries ${rule}, which no page has`);
      tested.set(rule, [...(tested.get(rule) ?? []), relative(root, file)]);
    }
  }
}

let missing = 0;
for (const [rule, place] of rules) {
  if (tested.has(rule)) continue;
  missing += 1;
  console.error(`${place}: ${rule} has no test in test/e2e that carries its number`);
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
