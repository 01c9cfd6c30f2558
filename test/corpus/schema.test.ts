import { Ajv } from 'ajv';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadBundle } from '../../src/bundle/index.ts';
import { sourceOf, verdicts } from './data.ts';

const { bundleSchema } = await loadBundle();
const validate = new Ajv({ strict: false }).compile(bundleSchema());

const files = verdicts
  .filter((one) => one.accepted || one.file.startsWith('seed-bundles/'))
  .map((one) => one.file);

test('the files are there', () => {
  expect(files.length).toBe(70);
});

test.each(files)('the schema for editors accepts %s', (file) => {
  const errors = validate(parse(sourceOf(file))) === true ? [] : (validate.errors ?? []);
  expect(errors.map((error) => `${error.instancePath} ${error.message}`)).toEqual([]);
});
