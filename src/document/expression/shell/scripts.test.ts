import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Delimiters } from '../types.ts';
import { bindScript } from './bind.ts';

const folder = new URL('../../../../test/data/scripts/', import.meta.url);
const index = JSON.parse(readFileSync(new URL('index.json', folder), 'utf8')) as readonly {
  readonly file: string;
  readonly origin: string;
  readonly shell?: string;
  readonly delimiters?: Delimiters;
}[];

test('there are sixty and more, most of them from published bundles', () => {
  expect(index.length).toBeGreaterThanOrEqual(60);
  expect(index.filter((it) => it.origin !== 'own').length).toBeGreaterThan(index.length / 2);
});

test.each(index)('$file binds without a finding', ({ file, shell, delimiters }) => {
  const script = readFileSync(new URL(file, folder), 'utf8');
  const bound = bindScript(script, { shell: shell ?? 'sh', delimiters: delimiters ?? 'dollar' });
  expect(bound.findings).toEqual([]);
  expect(bound.fix).toBeUndefined();
  // Outside of comments no expression is left.
  expect(bound.body.replace(/(^|\s)#.*$/gm, '')).not.toMatch(
    /\$\{\s*(?:bundle|installation)\s*\.|\{\{\s*bundle\./,
  );
});
