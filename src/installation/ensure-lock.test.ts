import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { ImageAccess } from '../images/index.ts';
import { digestOf } from '../oci/names/index.ts';
import { imagesByName } from './action.fixture.ts';
import { lockBundle } from './ensure-lock.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'skycap-lock-'));
  writeFileSync(
    join(directory, 'porter.yaml'),
    `name: shop
version: 1.0.0
invocationImages:
  - {name: one, image: "ghcr.io/acme/one:1"}
  - {name: two, image: "ghcr.io/acme/two:1"}
install:
  - {description: d, invoke: {name: one, action: {command: ["true"]}}}
`,
  );
});
afterEach(() => rmSync(directory, { recursive: true }));

const lock = (images: ImageAccess, update: readonly string[], check = false) => {
  const lockFile = join(directory, 'porter.lock');
  return lockBundle(
    { file: join(directory, 'porter.yaml'), directory, lockFile },
    { images },
    { update, check },
  );
};

/** Tags that lead elsewhere since. */
const later: ImageAccess = {
  ...imagesByName,
  describe: async (reference) => ({
    ...(await imagesByName.describe(reference)),
    digest: digestOf(`${reference}, later`),
  }),
};

const pins = (): readonly string[] => {
  const { invocationImages } = JSON.parse(readFileSync(join(directory, 'porter.lock'), 'utf8'));
  return ['one', 'two'].map((name) => invocationImages[name].digest);
};

it('keeps the pin that another command moves while this one moves its own', async () => {
  await lock(imagesByName, []);
  const slow: ImageAccess = {
    ...later,
    async describe(reference) {
      if (reference.includes('one') && !done) {
        done = true;
        await lock(later, ['two']);
      }
      return await later.describe(reference);
    },
  };
  let done = false;
  const { changes } = await lock(slow, ['one']);
  expect(changes.map(({ name }) => name)).toEqual(['one']);
  expect(pins()).toEqual(['one', 'two'].map((name) => digestOf(`ghcr.io/acme/${name}:1, later`)));
});

it('does not wait for ever for one who writes without end', async () => {
  await lock(imagesByName, []);
  let written = 0;
  const busy: ImageAccess = {
    ...later,
    async describe(reference) {
      written++;
      writeFileSync(
        join(directory, 'porter.lock'),
        `${readFileSync(join(directory, 'porter.lock'), 'utf8')} `,
      );
      return await later.describe(reference);
    },
  };
  await lock(busy, ['one']);
  expect(written).toBe(5);
  expect(pins()[0]).toBe(digestOf('ghcr.io/acme/one:1, later'));
});
