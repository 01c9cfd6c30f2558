import { describe, expect, it } from 'vitest';
import type { Bundle } from '../bundle/index.ts';
import type { Digest, PinnedImage } from '../oci/index.ts';
import { digestOf, parsePlatform } from '../oci/names/index.ts';
import type { ImageAccess } from './access.ts';
import { baseImages } from './build-inputs.ts';
import { emptyLock, formatLock, parseLock } from './lock.ts';
import { makeLock } from './make-lock.ts';
import { pinImages, pinReferences } from './pin.ts';

const amd64 = parsePlatform('linux/amd64');
const index = digestOf('index');

function image(platform: string): PinnedImage {
  return {
    reference: 'ghcr.io/acme/tools:1',
    repository: 'ghcr.io/acme/tools',
    digest: index,
    manifestDigest: digestOf(platform),
    configDigest: digestOf(`config ${platform}`),
    platform: parsePlatform(platform),
    config: {
      entrypoint: ['/bin/tool'],
      cmd: ['--help'],
      env: ['A=1', 'B=2'],
      user: '1000',
      workingDir: '/w',
      labels: { 'dev.skycap.interface': '{"inputs":{"release":{"type":"string"}},"command":["go"]}' },
    },
    layers: [],
    size: 42,
  };
}

const asked: string[] = [];
const access: ImageAccess = {
  async describe(reference) {
    asked.push(reference);
    return { digest: index, platforms: [image('linux/amd64'), image('linux/arm64')] };
  },
  digestOf: async () => index,
  async fetch(reference, platform) {
    const digest = reference.split('@')[1] as Digest;
    if (digest !== index) throw new Error('the registry has no such manifest');
    return image(`${platform.os}/${platform.architecture}`);
  },
};

const bundle = {
  file: 'porter.yaml',
  invocationImages: [{ name: 'tools', source: { kind: 'registry', image: 'ghcr.io/acme/tools:1' } }],
  images: [{ key: 'web', repository: 'ghcr.io/acme/web', tag: '1', labels: {} }],
  dependencies: [],
} as unknown as Bundle;
const noInputs = {
  build: () => Promise.reject(new Error('none')),
  file: () => Promise.reject(new Error('none')),
};

async function locked(): Promise<string> {
  return formatLock((await makeLock({ bundle, previous: emptyLock, update: [] }, access, noInputs)).lock);
}

describe('the lock', () => {
  it('is the same bytes for the same images, and keeps what fits without asking', async () => {
    const text = await locked();
    asked.length = 0;

    const again = await makeLock(
      { bundle, previous: parseLock(text, 'porter.lock'), update: [] },
      access,
      noInputs,
    );

    expect(formatLock(again.lock)).toBe(text);
    expect(again.changes).toEqual([]);
    expect(asked).toEqual([]);
  });

  it('pins the image that it names', async () => {
    const lock = parseLock(await locked(), 'porter.lock');

    const images = await pinImages(
      { bundle, lock, lockFile: 'porter.lock', names: ['tools'], platform: amd64 },
      access,
    );

    expect(images.get('tools')).toEqual(image('linux/amd64'));
  });

  it('the first image that fails ends the transfers of the others, and is told when they have ended', async () => {
    const names = ['a', 'b', 'c'];
    const several = {
      ...bundle,
      invocationImages: names.map((name) => ({
        name,
        source: { kind: 'registry', image: `ghcr.io/acme/${name}:1` },
      })),
    } as unknown as Bundle;
    const { lock } = await makeLock({ bundle: several, previous: emptyLock, update: [] }, access, noInputs);
    const fault = new Error('the registry is gone');
    const ended: string[] = [];
    const failing: ImageAccess = {
      ...access,
      async fetch(reference, _platform, signal) {
        if (reference.includes('/b@')) throw fault;
        await new Promise((done) => signal.addEventListener('abort', done, { once: true }));
        await new Promise(setImmediate);
        ended.push(reference);
        throw new Error('cancelled');
      },
    };

    const pinned = pinImages(
      { bundle: several, lock, lockFile: 'porter.lock', names, platform: amd64 },
      failing,
    );

    await expect(pinned).rejects.toBe(fault);
    expect(ended).toHaveLength(2);
  });

  it('gains nothing by being edited: every change is an error or changes nothing', async () => {
    const text = await locked();
    const paths = leaves(JSON.parse(text));
    const outcomes: Record<string, string> = {};
    for (const path of paths) {
      for (const edit of ['change', 'delete'] as const) {
        const edited = JSON.parse(text);
        apply(edited, path, edit);
        const key = `${edit} ${path.join('.')}`;
        try {
          const lock = parseLock(JSON.stringify(edited), 'porter.lock');
          const images = await pinImages(
            { bundle, lock, lockFile: 'porter.lock', names: ['tools'], platform: amd64 },
            access,
          );
          const { web } = pinReferences({ bundle, lock, lockFile: 'porter.lock' });
          const isSame =
            web === index && JSON.stringify(images.get('tools')) === JSON.stringify(image('linux/amd64'));
          outcomes[key] = isSame ? 'same' : 'GAINED';
        } catch {
          outcomes[key] = 'error';
        }
      }
    }

    expect(paths.length).toBeGreaterThan(20);
    expect(Object.entries(outcomes).filter(([, outcome]) => outcome === 'GAINED')).toEqual([]);
    // Only what the run's platform does not use may be edited without being noticed.
    const unnoticed = Object.entries(outcomes).filter(
      ([key, outcome]) => outcome === 'same' && !key.includes('linux/arm64'),
    );
    expect(unnoticed).toEqual([]);
  });
});

describe('baseImages', () => {
  it('finds FROM references, fills in ARGs and leaves out stages', () => {
    const dockerfile =
      'ARG TAG=1\nARG BASE=debian:12\nFROM --platform=linux/amd64 $BASE AS build\n# FROM nothing\nFROM \\\n  alpine:${TAG}\nCOPY --from=build / /\nFROM scratch\nFROM build\n';

    expect(baseImages(dockerfile, { TAG: '2' })).toEqual(['debian:12', 'alpine:2']);
  });
});

type Path = readonly (string | number)[];

function leaves(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, item]) =>
    leaves(item, [...path, Array.isArray(value) ? Number(key) : key]),
  );
  return Array.isArray(value) ? [path, ...inner] : inner;
}

function apply(root: Record<string, unknown>, path: Path, edit: 'change' | 'delete'): void {
  let parent: Record<string | number, unknown> = root;
  for (const key of path.slice(0, -1)) parent = parent[key] as Record<string, unknown>;
  const last = path.at(-1) as string | number;
  if (edit === 'change') parent[last] = changed(parent[last]);
  else if (Array.isArray(parent)) parent.splice(last as number, 1);
  else delete parent[last];
}

function changed(value: unknown): unknown {
  if (typeof value === 'number') return value + 1;
  if (Array.isArray(value)) return [...value, 'x'];
  return String(value).startsWith('sha256:') ? digestOf('other') : `${String(value)}x`;
}
