import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { errorPage } from '../../scripts/error-page.ts';

it('docs/errors.md is what the tables say (npm run docs)', async () => {
  expect(readFileSync(join(import.meta.dirname, '../../docs/errors.md'), 'utf8')).toBe(await errorPage());
});
