import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { IMAGE, INDEX, type MemoryStore, manifestOf, memoryStore } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf, LARGEST_DOCUMENT } from '../../names/index.ts';
import type { Store } from '../../port.ts';
import type { Hidden } from '../../store/hidden.ts';
import type { Digest } from '../../types.ts';
import { type Content, type ManifestFacts, makeContent, readFacts } from './content.ts';

const part = (name: string, more: object = {}): { mediaType: string; digest: Digest; size: number } => ({
  mediaType: `x/${name}`,
  digest: digestOf(name),
  size: name.length,
  ...more,
});
const read = (body: unknown, sentAs?: string): ManifestFacts => {
  const bytes = Buffer.from(JSON.stringify(body));
  return readFacts(bytes, digestOf(bytes), sentAs);
};

describe('what a manifest says', () => {
  it('is what it leads to and what it refers to', () => {
    const body = {
      schemaVersion: 2,
      mediaType: IMAGE,
      artifactType: 'a/sig',
      config: part('config'),
      layers: [part('one'), part('two')],
      subject: part('subject'),
      annotations: { k: 'v' },
    };
    const bytes = Buffer.from(JSON.stringify(body));
    expect(readFacts(bytes, digestOf(bytes), IMAGE)).toEqual({
      descriptor: { mediaType: IMAGE, digest: digestOf(bytes), size: bytes.length },
      subject: digestOf('subject'),
      artifactType: 'a/sig',
      annotations: { k: 'v' },
      parts: [digestOf('config'), digestOf('one'), digestOf('two')],
      isIndex: false,
    });
  });

  it('an index leads to its manifests, and has no type of artifact but its own', () => {
    const index = { schemaVersion: 2, mediaType: INDEX, manifests: [part('one'), part('two')] };
    expect(read(index)).toMatchObject({
      descriptor: { mediaType: INDEX },
      parts: [digestOf('one'), digestOf('two')],
      isIndex: true,
      artifactType: undefined,
      subject: undefined,
      annotations: undefined,
    });
    expect(read({ ...index, artifactType: 'a/list' }).artifactType).toBe('a/list');
  });

  it('the type of an artifact that does not name one is that of its config', () => {
    const body = { schemaVersion: 2, mediaType: IMAGE, config: part('config'), layers: [] };
    expect(read(body).artifactType).toBe('x/config');
    expect(read({ ...body, config: { ...part('config'), mediaType: 7 } }).artifactType).toBeUndefined();
    expect(read({ ...body, artifactType: 7 }).artifactType).toBeUndefined();
  });

  it('has no parts where there are none, or they are kept elsewhere, or are no descriptors', () => {
    const of = (layers: unknown): readonly Digest[] =>
      read({ schemaVersion: 2, mediaType: IMAGE, config: part('config'), layers }).parts;
    expect(of(null)).toEqual([digestOf('config')]);
    expect(of(undefined)).toEqual([digestOf('config')]);
    expect(of([part('far', { urls: ['https://layers.test/x'] }), part('near')])).toEqual([
      digestOf('config'),
      digestOf('near'),
    ]);
    expect(of([null, {}, { digest: 'sha256:short' }, 7])).toEqual([digestOf('config')]);
  });

  it('refers to nothing where its subject has no digest', () => {
    for (const subject of [null, {}, { digest: 'sha256:short' }])
      expect(
        read({ schemaVersion: 2, mediaType: IMAGE, config: part('config'), subject }).subject,
      ).toBeUndefined();
  });

  it('need not name its own type, and then has the one that it was sent as, or that it looks like', () => {
    const image = { schemaVersion: 2, config: part('config'), layers: [] };
    const docker = 'application/vnd.docker.distribution.manifest.v2+json';
    expect(read(image).descriptor.mediaType).toBe(IMAGE);
    expect(read(image, docker).descriptor.mediaType).toBe(docker);
    expect(read({ ...image, mediaType: docker }).descriptor.mediaType).toBe(docker);
    expect(read({ schemaVersion: 2, manifests: [] }).descriptor.mediaType).toBe(INDEX);
  });

  it('is refused where it is none', () => {
    for (const text of ['', '<html>', 'null', '[]', '{}', '{"schemaVersion":2}'])
      expect(() => readFacts(Buffer.from(text), digestOf(text), undefined)).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/^(OCI_MANIFEST|REGISTRY_ANSWER)_INVALID$/) }),
      );
    expect(() => read({ schemaVersion: 2, mediaType: IMAGE, config: part('c') }, INDEX)).toThrow(
      expect.objectContaining({ code: 'OCI_MANIFEST_INVALID' }),
    );
  });
});

describe('a store as a registry sees it', () => {
  let directory: string;
  let store: MemoryStore;
  let gone: Set<string>;
  let hidden: Hidden;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'content-'));
    store = memoryStore(directory);
    gone = new Set();
    hidden = {
      has: (repository, digest) => gone.has(`${repository} ${digest}`),
      hide: async (repository, digest) => void gone.add(`${repository} ${digest}`),
      show: async (repository, digest) => void gone.delete(`${repository} ${digest}`),
      refresh: async () => {},
    };
  });
  afterEach(() => rm(directory, { recursive: true }));
  const contentOf = (more: Partial<Store> = {}): Content => makeContent({ ...store, ...more }, hidden);
  const manifest = (name: string) => store.add(manifestOf(part(name), []), IMAGE);

  it('what was pushed here comes before what it means elsewhere', async () => {
    const content = contentOf();
    const [far, near] = [await manifest('far'), await manifest('near')];
    const digest = async (): Promise<Digest | undefined> =>
      (await content.resolve('tool', { tag: '1' }))?.descriptor.digest;
    expect(await digest()).toBeUndefined();
    await store.tag('docker.io/library/tool:1', far);
    expect(await digest()).toBe(far.digest);
    await store.tag('localhost/tool:1', near);
    expect(await digest()).toBe(near.digest);
    expect(await content.resolve('tool', { tag: '2' })).toBeUndefined();
  });

  it('a manifest is read once, and is gone when the store has it no more', async () => {
    let reads = 0;
    let here = true;
    const content = contentOf({
      hasBlob: async () => here,
      readSmall: async (digest) => {
        reads += 1;
        return await store.readSmall(digest);
      },
    });
    const { digest } = await manifest('one');
    const first = await content.facts({ digest });
    expect(first?.parts).toEqual([digestOf('one')]);
    expect([await content.facts({ digest }), reads]).toEqual([first, 1]);
    here = false;
    expect(await content.facts({ digest })).toBeUndefined();
  });

  it('remembers no more manifests than it may', async () => {
    const bytes = Buffer.from(manifestOf(part('one'), []));
    const reads: Digest[] = [];
    const content = contentOf({
      hasBlob: async () => true,
      blobSize: async () => bytes.length,
      readSmall: async (digest) => {
        reads.push(digest);
        return bytes;
      },
    });
    const digests = Array.from(
      { length: 10_001 },
      (_, index) => `sha256:${index.toString(16).padStart(64, '0')}` as Digest,
    );
    const first = digests[0] as Digest;
    for (const digest of digests.slice(0, 10_000)) await content.facts({ digest });
    await content.facts({ digest: first });
    expect(reads).toHaveLength(10_000);
    await content.facts({ digest: digests[10_000] as Digest });
    await content.facts({ digest: first });
    expect(reads.slice(10_000)).toEqual([digests[10_000], first]);
  });

  it('a blob that is no manifest, is too large for one or is not here is none', async () => {
    const blob = await store.add('no manifest');
    expect(await contentOf().facts(blob)).toBeUndefined();
    const other = await store.add('{"schemaVersion":2}');
    expect(await contentOf().facts(other)).toBeUndefined();
    const one = await manifest('one');
    const sized = (size: number | undefined): Content => contentOf({ blobSize: async () => size });
    expect(await sized(LARGEST_DOCUMENT)?.facts(one)).toBeDefined();
    expect(await sized(LARGEST_DOCUMENT + 1).facts(one)).toBeUndefined();
    expect(await sized(undefined).facts(one)).toBeUndefined();
  });

  it('what the store cannot read is a fault, not an absence', async () => {
    const one = await manifest('one');
    const content = contentOf({ readSmall: () => Promise.reject(ociError('OCI_BLOB_CORRUPT', 'flipped')) });
    await expect(content.facts(one)).rejects.toMatchObject({ code: 'OCI_BLOB_CORRUPT' });
  });

  it('what is hidden is not there under its digest, in that repository alone', async () => {
    const content = contentOf();
    const { digest } = await manifest('one');
    const blob = await store.add('blob');
    await content.hide('a', digest);
    await content.hide('a', blob.digest);
    expect(await content.resolve('a', { digest })).toBeUndefined();
    expect(await content.hasBlob('a', blob.digest)).toBe(false);
    expect(await content.resolve('b', { digest })).toBeDefined();
    expect(await content.hasBlob('b', blob.digest)).toBe(true);
    expect(await content.hasBlob('b', digestOf('none'))).toBe(false);
    await content.show('a', digest);
    expect(await content.resolve('a', { digest })).toBeDefined();
    expect(await content.hasBlob('a', blob.digest)).toBe(false);
  });

  it('what is named again is there with all that it leads to, and stays when its name goes', async () => {
    const content = contentOf();
    const config = await store.add('one');
    const one = await manifest('one');
    const index = await store.add(
      JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [one, one, part('none')] }),
      INDEX,
    );
    const other = await store.add('other');
    for (const { digest } of [index, one, config, other]) await content.hide('a', digest);
    const seen = async (): Promise<readonly boolean[]> => [
      (await content.resolve('a', { digest: index.digest })) !== undefined,
      (await content.resolve('a', { digest: one.digest })) !== undefined,
      await content.hasBlob('a', config.digest),
      await content.hasBlob('a', other.digest),
    ];
    expect(await seen()).toEqual([false, false, false, false]);
    await store.tag('docker.io/library/a:1', index);
    expect(await seen()).toEqual([true, true, true, false]);
    await content.settle('a');
    await store.untag('docker.io/library/a:1');
    expect(await seen()).toEqual([true, true, true, false]);
    expect([...gone]).toEqual([`a ${other.digest}`]);
  });

  it('what is named and was never hidden brings nothing back', async () => {
    const content = contentOf();
    const config = await store.add('one');
    await store.tag('docker.io/library/a:1', await manifest('one'));
    await content.hide('a', config.digest);
    expect(await content.hasBlob('a', config.digest)).toBe(false);
  });

  it('exclusive work is done one after the other, also after work that failed', async () => {
    const content = contentOf();
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const first = content.exclusive(async () => {
      await gate.promise;
      order.push('first');
      throw new Error('first failed');
    });
    const second = content.exclusive(async () => {
      order.push('second');
      return 2;
    });
    gate.resolve();
    await expect(first).rejects.toThrow('first failed');
    expect(await second).toBe(2);
    expect(order).toEqual(['first', 'second']);
  });
});
