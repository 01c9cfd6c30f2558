import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/**
 * Where the recorded behaviour of Porter and the public bundles lie: `SKYCAP_CORPUS`, or `shared` beside the project.
 * Absence is an error and never a skip: a suite that did not run must not look like one that passed.
 */
export const corpusRoot = resolve(process.env.SKYCAP_CORPUS ?? join(import.meta.dirname, '../../../shared'));

if (!existsSync(join(corpusRoot, 'oracle/porter/porter-verdicts.json')))
  throw new Error(`no corpus at ${corpusRoot}: set SKYCAP_CORPUS to the folder that has oracle/ and corpus/`);

export interface Verdict {
  readonly file: string;
  readonly accepted: boolean;
  readonly stage: string;
  readonly error: string | null;
  readonly bundle: string | null;
  readonly schemaVersion: string | null;
  readonly name: string | null;
  readonly lint: { readonly results: readonly { readonly code: string }[] } | null;
}

export interface ExpressionCase {
  readonly id: string;
  readonly manifest: string;
  readonly error?: string;
  readonly stage?: string;
  readonly surprise?: boolean;
}

export function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(join(corpusRoot, path), 'utf8')) as T;
}

export const verdicts = readJson<readonly Verdict[]>('oracle/porter/porter-verdicts.json');

export const expressionCases = readJson<readonly ExpressionCase[]>('oracle/porter/expressions.json');

export function sourceOf(file: string): string {
  return readFileSync(join(corpusRoot, file.startsWith('seed-bundles/') ? '' : 'corpus', file), 'utf8');
}

/** A table of docs/porter-differences.md, by the heading above it: its rows as lists of cells. */
export function tableBelow(heading: string): readonly (readonly string[])[] {
  const page = readFileSync(join(import.meta.dirname, '../../docs/porter-differences.md'), 'utf8');
  const begin = page.indexOf(`## ${heading}\n`);
  if (begin < 0) throw new Error(`docs/porter-differences.md has no section "${heading}"`);
  const section = page.slice(begin + 3).split('\n## ')[0] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** The text of a cell without the backticks around it. */
export function bare(cell: string | undefined): string {
  return (cell ?? '').replaceAll('`', '');
}
