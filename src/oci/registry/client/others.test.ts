import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  asking,
  codeOf,
  collect,
  memoryStore,
  type Reply,
  scriptedRegistry,
} from '../../../testkit/registry/index.ts';
import { BLOB, BYTES, here, pushBlob, START, sent, UPLOADS } from '../../../testkit/registry/pushing.ts';
import { pullImage } from '../../image/index.ts';
import { digestOf } from '../../names/index.ts';
import { parseReference } from '../../names/reference.ts';

const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const amd64 = { os: 'linux', architecture: 'amd64' };

interface Served {
  readonly descriptor: { mediaType: string; digest: ReturnType<typeof digestOf>; size: number };
  readonly rules: Record<string, Reply>;
}

function served(kind: 'manifests' | 'blobs', value: object, mediaType: string): Served {
  const body = JSON.stringify(value);
  const descriptor = { mediaType, digest: digestOf(body), size: body.length };
  const reply: Reply = { body, headers: { 'content-type': mediaType } };
  return { descriptor, rules: { [`GET /v2/team/app/${kind}/${descriptor.digest}`]: reply } };
}

function image(config: object, more: object = {}): Served {
  const blob = served('blobs', config, 'application/vnd.oci.image.config.v1+json');
  const manifest = { schemaVersion: 2, mediaType: IMAGE, config: blob.descriptor, layers: [], ...more };
  const made = served('manifests', manifest, IMAGE);
  return { descriptor: made.descriptor, rules: { ...blob.rules, ...made.rules } };
}

const runnable = { ...amd64, rootfs: { type: 'layers', diff_ids: [] }, config: {} };

async function pull(rules: Record<string, Reply>): Promise<{ result: string; lines: readonly string[] }> {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-others-'));
  try {
    await using registry = await scriptedRegistry(rules);
    await using asked = asking();
    await using store = memoryStore(directory);
    const at = asked.at(registry.host);
    let result = '';
    const code = await codeOf(
      pullImage(asked.client, store, at, { ...asked.options, platform: amd64 }).then((pinned) => {
        result = pinned.manifestDigest;
      }),
    );
    return { result: code === 'no error' ? result : code, lines: registry.lines() };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function tagged(root: Served): Record<string, Reply> {
  return {
    'GET /v2/team/app/manifests/1': root.rules[
      `GET /v2/team/app/manifests/${root.descriptor.digest}`
    ] as Reply,
  };
}

describe('an image', () => {
  it('R151 is told from the attestation that stands beside it in the index', async () => {
    const about = image(
      { architecture: 'unknown', os: 'unknown', rootfs: { type: 'layers', diff_ids: [] }, config: {} },
      {
        layers: [{ mediaType: 'application/vnd.in-toto+json', digest: digestOf('{}'), size: 2 }],
      },
    );
    const good = image(runnable);
    const unknown = { os: 'unknown', architecture: 'unknown' };
    const both = served(
      'manifests',
      {
        schemaVersion: 2,
        mediaType: INDEX,
        manifests: [
          { ...about.descriptor, platform: unknown },
          { ...good.descriptor, platform: amd64 },
        ],
      },
      INDEX,
    );
    const outcome = await pull({ ...about.rules, ...good.rules, ...both.rules, ...tagged(both) });
    expect(outcome.result).toBe(good.descriptor.digest);
    expect(outcome.lines.some((line) => line.includes(about.descriptor.digest))).toBe(false);
    const alone = served(
      'manifests',
      { schemaVersion: 2, mediaType: INDEX, manifests: [{ ...about.descriptor, platform: unknown }] },
      INDEX,
    );
    expect((await pull({ ...about.rules, ...alone.rules, ...tagged(alone) })).result).toBe(
      'OCI_PLATFORM_MISSING',
    );
  });

  it('R129 whose config is said to have more than 8 MiB is refused before the config is asked for', async () => {
    const small = served('blobs', runnable, 'application/vnd.oci.image.config.v1+json');
    const config = { ...small.descriptor, size: 8 * 1024 * 1024 + 1 };
    const manifest = served('manifests', { schemaVersion: 2, mediaType: IMAGE, config, layers: [] }, IMAGE);
    const outcome = await pull({ ...small.rules, ...manifest.rules, ...tagged(manifest) });
    expect(outcome.result).toBe('OCI_MANIFEST_INVALID');
    expect(outcome.lines.some((line) => line.includes('/blobs/'))).toBe(false);
  });
});

describe('a blob', () => {
  it('R150 with the same content under another compression does not take the place of another', async () => {
    const packed = gzipSync(BYTES);
    const blob = {
      mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
      digest: digestOf(packed),
      size: packed.length,
    };
    const outcome = await pushBlob(
      { [`HEAD /v2/team/app/blobs/${BLOB.digest}`]: {}, [START]: here() },
      { blob, bytes: packed },
    );
    expect(outcome.result).toBe('uploaded');
    expect(sent(outcome, 'PUT')[0]?.body.equals(packed)).toBe(true);
  });

  it('R153 is fetched from the registry, never from the addresses in its descriptor', async () => {
    await using elsewhere = await scriptedRegistry({ 'GET /layer': { body: BYTES } });
    await using registry = await scriptedRegistry({});
    await using asked = asking();
    const blob = { ...BLOB, urls: [`http://${elsewhere.host}/layer`] };
    const read = async (): Promise<void> => {
      await collect(await asked.client.getBlob(asked.at(registry.host), blob, 0, asked.options));
    };
    expect(await codeOf(read())).toBe('REGISTRY_NOT_FOUND');
    expect(elsewhere.asked).toEqual([]);
    expect(registry.lines()).toEqual([`GET /v2/team/app/blobs/${BLOB.digest}`]);
  });

  it('R103 that is streamed is not sent again before the registry was asked how far it is', async () => {
    const outcome = await pushBlob({
      [START]: here(),
      [`PUT ${UPLOADS}1`]: [{ status: 503 }, { status: 201 }],
    });
    expect(outcome.result).toBe('uploaded');
    expect(outcome.asked.map((entry) => entry.method)).toEqual([
      'GET',
      'HEAD',
      'POST',
      'PUT',
      'GET',
      'POST',
      'PUT',
    ]);
    await using elsewhere = await scriptedRegistry({ '*': { status: 201 } });
    const redirected = await pushBlob({
      [START]: here(),
      [`PUT ${UPLOADS}1`]: { status: 307, headers: { location: `http://${elsewhere.host}/` } },
    });
    expect(redirected.result).toBe('REGISTRY_ANSWER_INVALID');
    expect(elsewhere.asked).toEqual([]);
  });
});

describe('a name', () => {
  it('R104 that breaks the grammar is never part of an address', async () => {
    await using registry = await scriptedRegistry({});
    await using asked = asking();
    const at = { registry: registry.host, repository: 'team/app' };
    const bad = [
      { ...at, repository: 'team//app' },
      { ...at, repository: 'Team/app' },
      { ...at, repository: 'a'.repeat(256) },
      { ...at, tag: 't'.repeat(129) },
      { ...at, tag: '../x' },
      { ...at, digest: `sha256:${'A'.repeat(64)}` },
      { ...at, digest: 'md5:d41d8cd98f00b204e9800998ecf8427e' },
    ];
    for (const reference of bad) {
      const code = await codeOf(
        asked.client.getManifest(reference as ReturnType<typeof parseReference>, asked.options),
      );
      expect([reference, code]).toEqual([reference, 'REFERENCE_INVALID']);
    }
    expect(registry.asked).toEqual([]);
    expect(() => parseReference(`host.test/${'a'.repeat(250)}`)).toThrow();
    expect(parseReference(`host.test/${'a'.repeat(245)}`).repository).toHaveLength(245);
  });
});
