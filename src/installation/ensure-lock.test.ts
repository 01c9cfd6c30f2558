import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ImageAccess } from '../images/index.ts';
import { digestOf } from '../oci/names/index.ts';
import { takeTurn } from '../oci/store/turn.ts';
import { imagesByName } from './action.fixture.ts';
import { loadBundleSource } from './bundle-source.ts';
import { ensureLock, lockBundle } from './ensure-lock.ts';
import type { ActionDeps, ActionRequest } from './types.ts';

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

const NEVER = new AbortController().signal;
const sourceOf = () => ({
  file: join(directory, 'porter.yaml'),
  directory,
  lockFile: join(directory, 'porter.lock'),
});
const lock = (images: ImageAccess, update: readonly string[], check = false) =>
  lockBundle(sourceOf(), { images, signal: NEVER }, { update, check });

/** Tags that lead elsewhere since. */
const later: ImageAccess = {
  ...imagesByName,
  describe: async (reference) => ({
    ...(await imagesByName.describe(reference)),
    digest: digestOf(`${reference}, later`),
  }),
};

const pinsOf = (names: readonly string[]): readonly string[] => {
  const { invocationImages } = JSON.parse(readFileSync(join(directory, 'porter.lock'), 'utf8'));
  return names.map((name) => invocationImages[name].digest);
};
const pins = (): readonly string[] => pinsOf(['one', 'two']);

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

it('loses no pin where many commands move one each at the very same time', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const images = names.map((name) => `  - {name: ${name}, image: "ghcr.io/acme/${name}:1"}\n`).join('');
  writeFileSync(
    join(directory, 'porter.yaml'),
    `name: shop
version: 1.0.0
invocationImages:
${images}install:
  - {description: d, invoke: {name: a, action: {command: ["true"]}}}
`,
  );
  await lock(imagesByName, []);
  await Promise.all(names.map((name) => lock(later, [name])));
  expect(pinsOf(names)).toEqual(names.map((name) => digestOf(`ghcr.io/acme/${name}:1, later`)));
  expect(readdirSync(directory).sort()).toEqual(['porter.lock', 'porter.yaml']);
});

it('goes without a turn where there can be no private folder', async () => {
  const turn = join(directory, '.porter.lock.skycap-lock');
  mkdirSync(turn);
  chmodSync(turn, 0o777);
  await lock(imagesByName, []);
  expect(pins()).toEqual(['one', 'two'].map((name) => digestOf(`ghcr.io/acme/${name}:1`)));
  chmodSync(turn, 0o700);
  await lock(imagesByName, []);
  expect(readdirSync(directory).sort()).toEqual(['porter.lock', 'porter.yaml']);
});

it('goes without a turn that nobody ends, after half a minute', async () => {
  await using _held = await takeTurn(join(directory, '.porter.lock.skycap-lock'), NEVER);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const locking = lock(imagesByName, []);
    await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1));
    vi.advanceTimersByTime(30_000);
    await locking;
  } finally {
    vi.useRealTimers();
  }
  expect(pins()).toEqual(['one', 'two'].map((name) => digestOf(`ghcr.io/acme/${name}:1`)));
});

it('asks again where another command changes the lock while the question stands', async () => {
  await lock(imagesByName, []);
  const both = readFileSync(join(directory, 'porter.lock'), 'utf8');
  const { two: _two, ...one } = JSON.parse(both).invocationImages;
  writeFileSync(
    join(directory, 'porter.lock'),
    `${JSON.stringify({ ...JSON.parse(both), invocationImages: one }, undefined, 2)}\n`,
  );
  const source = sourceOf();
  const loaded = await loadBundleSource(source);
  const asked: string[][] = [];
  const pinned = await ensureLock(
    { source } as ActionRequest,
    {
      images: later,
      signal: NEVER,
      async offerLock(changes) {
        asked.push(changes.map(({ name }) => name));
        if (asked.length === 1) await lock(later, ['one']);
        return true;
      },
    } as Partial<ActionDeps> as ActionDeps,
    { loaded, names: ['one', 'two'] },
  );
  // The other command has pinned both: nothing is left to be asked.
  expect(asked).toEqual([['two']]);
  const moved = ['one', 'two'].map((name) => digestOf(`ghcr.io/acme/${name}:1, later`));
  expect(pins()).toEqual(moved);
  expect(['one', 'two'].map((name) => (pinned.invocationImages[name] as { digest?: string }).digest)).toEqual(
    moved,
  );
});

it.each([
  [undefined, 'skycap lock'],
  ['shop/porter.yaml', 'skycap lock -f shop/porter.yaml'],
  ["my shop's", "skycap lock -f 'my shop'\\''s'"],
])('says how a bundle that was given as %j is locked', async (given, hint) => {
  const source = { ...sourceOf(), ...(given === undefined ? {} : { given }) };
  const loaded = await loadBundleSource(source);
  const ensured = ensureLock({ source } as ActionRequest, {} as ActionDeps, { loaded, names: ['one'] });
  await expect(ensured).rejects.toMatchObject({
    code: 'LOCK_MISSING',
    hint: `pin the images with: ${hint}`,
  });
});
