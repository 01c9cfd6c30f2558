import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { bundleSchema } from './editor-schema.ts';

const validate = new Ajv({ strict: false }).compile(bundleSchema());

function accepts(yaml: string): boolean {
  return validate(parse(yaml)) === true;
}

test('the published schema is the generated one', () => {
  const published = readFileSync(new URL('../../docs/schema/porter.schema.json', import.meta.url), 'utf8');
  // The formatter decides how it is laid out.
  expect(JSON.parse(published), 'run: node scripts/write-schema.ts').toEqual(bundleSchema());
});

const head = 'name: x\nversion: 1.0.0\ninvocationImages: [{name: a, image: x.example/a}]\n';

test.each([
  `${head}install: [{invoke: {name: a, action: {command: [x]}}}]`,
  `${head}install:\n  - invoke:\n      - name: a\n      - action: {run: x}\nother: [{invoke: {name: a}, when: "\${ true }"}]`,
  `${head}parameters: [{name: p, type: integer, minimum: 1}]\ninstall: [{invoke: {name: a}}]`,
  `${head}parameters:\ninstall: [{exec: {command: x, description: y}}]`,
])('accepts %j', (yaml) => {
  expect(accepts(yaml)).toBe(true);
});

test.each([
  'version: 1.0.0\ninstall: []',
  `${head}parametrs: {a: 1}`,
  `${head}parameters: [{name: p, defualt: 1}]`,
  `${head}parameters: [{name: "../x"}]`,
  `${head}install: [{invoke: {name: a, actoin: {run: x}}}]`,
  `${head}install: [{invoke: {name: a}, retry: {attempts: none}}]`,
  'name: x\nversion: 1.0.0\ninvocationImages: [{name: a, network: all}]',
])('refuses %j', (yaml) => {
  expect(accepts(yaml)).toBe(false);
});
