import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDigester } from '../../oci/names/index.ts';
import type { Store } from '../../oci/port.ts';
import type { Descriptor, Digest } from '../../oci/types.ts';
import { codeFrom } from '../coded.ts';
import { inPieces, makeImage, recordingTransfer } from '../images/index.ts';

export interface StoreUnderTest {
  /** An empty one. */
  open(): Promise<Store>;
  /** The same content, as another process has it; left out where nobody else can. */
  reopen?(): Promise<Store>;
  close(): Promise<void>;
}

export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return 'done';
  } catch (error) {
    return codeFrom(error);
  }
}

function blobOf(bytes: Uint8Array, algorithm: 'sha256' | 'sha512' = 'sha256'): Descriptor {
  const digester = createDigester(algorithm);
  digester.update(bytes);
  return { mediaType: 'application/octet-stream', digest: digester.digest(), size: bytes.length };
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts).toString('latin1');
}

/** What every store keeps, whatever it keeps it in. */
export function storeContract(
  name: string,
  make: () => Promise<StoreUnderTest>,
  options: {
    /** Forgets nothing, unpacks nothing: a part of a store. */
    readonly partial?: true;
  } = {},
): void {
  describe(`the contract of a store, kept by ${name}`, () => {
    let under: StoreUnderTest;
    let store: Store;
    const transfer = recordingTransfer();
    const bytes = Buffer.from('0123456789'.repeat(20_000));
    const put = async (to: Store, blob: Descriptor, sent: Uint8Array = bytes): Promise<void> =>
      await to.ingest(blob, async (offset) => inPieces(sent.subarray(offset), 7000), transfer);

    beforeEach(async () => {
      under = await make();
      store = await under.open();
    });
    afterEach(() => under.close());

    it.each(['sha256', 'sha512'] as const)(
      'gives back what has its %s, whole and from anywhere',
      async (algorithm) => {
        const blob = blobOf(bytes, algorithm);
        expect(await store.hasBlob(blob.digest)).toBe(false);
        expect(await store.blobSize(blob.digest)).toBeUndefined();
        await put(store, blob);
        expect(await store.hasBlob(blob.digest)).toBe(true);
        expect(await store.blobSize(blob.digest)).toBe(bytes.length);
        expect(await collect(store.readBlob(blob.digest))).toBe(bytes.toString());
        expect(await collect(store.readBlob(blob.digest, 199_995))).toBe('56789');
        expect(await collect(store.readBlob(blob.digest, bytes.length))).toBe('');
        expect(Buffer.from(await store.readSmall(blob.digest)).equals(bytes)).toBe(true);
      },
    );

    it('keeps the empty blob', async () => {
      const empty = blobOf(Buffer.alloc(0));
      await put(store, empty, Buffer.alloc(0));
      expect(await store.blobSize(empty.digest)).toBe(0);
      expect(await collect(store.readBlob(empty.digest))).toBe('');
    });

    it.each<[string, (blob: Descriptor) => Descriptor, Uint8Array]>([
      ['other bytes', (blob) => blob, Buffer.alloc(bytes.length)],
      ['more bytes', (blob) => blob, Buffer.concat([bytes, Buffer.from('x')])],
      ['bytes of another size than announced', (blob) => ({ ...blob, size: bytes.length - 1 }), bytes],
      [
        'the right sha256 under a sha512',
        () => ({ ...blobOf(Buffer.from('x'), 'sha512'), size: bytes.length }),
        bytes,
      ],
    ])('refuses %s and shows nothing of it', async (_what, announce, sent) => {
      const blob = announce(blobOf(bytes));
      expect(await codeOf(put(store, blob, sent))).toBe('OCI_BLOB_CORRUPT');
      expect(await store.hasBlob(blob.digest)).toBe(false);
      expect(await codeOf(collect(store.readBlob(blob.digest)))).toBe('OCI_BLOB_MISSING');
    });

    it('says which blob is not there', async () => {
      const { digest } = blobOf(bytes);
      expect(await codeOf(collect(store.readBlob(digest)))).toBe('OCI_BLOB_MISSING');
      expect(await codeOf(store.readSmall(digest))).toBe('OCI_BLOB_MISSING');
      await expect(store.readSmall(digest)).rejects.toThrow(digest);
    });

    it('does not ask for what it has', async () => {
      await put(store, blobOf(bytes));
      await store.ingest(blobOf(bytes), () => Promise.reject(new Error('asked')), transfer);
    });

    it('passes on the error of whoever was to bring a blob, and can be asked again', async () => {
      const refused = Object.assign(new Error('no'), { code: 'X' });
      const open = (): Promise<never> => Promise.reject(refused);
      await expect(store.ingest(blobOf(bytes), open, transfer)).rejects.toBe(refused);
      expect(await store.hasBlob(blobOf(bytes).digest)).toBe(false);
      await put(store, blobOf(bytes));
      expect(await store.hasBlob(blobOf(bytes).digest)).toBe(true);
    });

    it('shows a blob to others when it is whole, and not before', async () => {
      const blob = blobOf(bytes);
      const seen: boolean[] = [];
      async function* watched(): AsyncGenerator<Uint8Array> {
        for await (const part of inPieces(bytes, 50_000)) {
          seen.push(await store.hasBlob(blob.digest));
          yield part;
        }
      }
      await store.ingest(blob, async () => watched(), transfer);
      expect(seen).toEqual([false, false, false, false]);
      expect(await store.hasBlob(blob.digest)).toBe(true);
    });

    it('takes many blobs at once, and one from many at once', async () => {
      const many = Array.from({ length: 12 }, (_, index) => Buffer.from(`blob ${index % 6}`));
      await Promise.all(many.map((content) => put(store, blobOf(content), content)));
      for (const content of many)
        expect(await collect(store.readBlob(blobOf(content).digest))).toBe(content.toString());
    });

    describe('names', () => {
      const reference = 'localhost/contract/a:1';
      const manifestOf = async (content: string): Promise<Descriptor> => {
        const config = Buffer.from(JSON.stringify({ content }));
        await put(store, blobOf(config), config);
        const mediaType = 'application/vnd.oci.image.manifest.v1+json';
        const described = { ...blobOf(config), mediaType: 'application/vnd.oci.image.config.v1+json' };
        const manifest = Buffer.from(
          JSON.stringify({ schemaVersion: 2, mediaType, config: described, layers: [] }),
        );
        await put(store, blobOf(manifest), manifest);
        return { ...blobOf(manifest), mediaType };
      };

      it('lead to what they were given last, until they are taken', async () => {
        const one = await manifestOf('one');
        const two = await manifestOf('two');
        expect(await store.resolve(reference)).toBeUndefined();
        await store.tag(reference, one);
        expect(await store.resolve(reference)).toMatchObject(one);
        await store.tag(reference, two);
        expect(await store.resolve(reference)).toMatchObject(two);
        expect(await store.resolve('localhost/contract/a:2')).toBeUndefined();
        expect(await store.untag(reference)).toBe(true);
        expect(await store.resolve(reference)).toBeUndefined();
        expect(await store.untag(reference)).toBe(false);
        expect(await store.hasBlob(two.digest)).toBe(true);
      });

      it('are listed, each once', async () => {
        const one = await manifestOf('one');
        expect(await store.list()).toEqual([]);
        await store.tag(reference, one);
        await store.tag(reference, one);
        await store.tag('localhost/contract/b:1', one);
        const listed = await store.list();
        expect(listed.map((image) => image.reference).toSorted()).toEqual([
          reference,
          'localhost/contract/b:1',
        ]);
        for (const { descriptor, sizeBytes } of listed) {
          expect(descriptor).toMatchObject(one);
          expect(sizeBytes).toBeGreaterThanOrEqual(one.size);
        }
      });

      it('are not given to what is not there', async () => {
        const lost = {
          ...blobOf(Buffer.from('lost')),
          mediaType: 'application/vnd.oci.image.manifest.v1+json',
        };
        expect(await codeOf(store.tag(reference, lost))).toBe('OCI_BLOB_MISSING');
        expect(await store.list()).toEqual([]);
      });

      it('given by several at once are all there', async () => {
        const one = await manifestOf('one');
        const other = (await under.reopen?.()) ?? store;
        const all = Array.from({ length: 8 }, (_, index) => `localhost/contract/a:${index}`);
        await Promise.all(all.map((text, index) => (index % 2 === 0 ? store : other).tag(text, one)));
        expect((await store.list()).map((image) => image.reference).toSorted()).toEqual(all);
        await Promise.all(all.slice(1).map((text, index) => (index % 2 === 0 ? store : other).untag(text)));
        expect((await other.list()).map((image) => image.reference)).toEqual(all.slice(0, 1));
      });
    });

    it('lets a lease be taken, ended and ended again', async () => {
      const lease = await store.lease('somebody', [blobOf(bytes).digest], { ttlMs: 0 });
      await lease[Symbol.asyncDispose]();
      await lease[Symbol.asyncDispose]();
    });

    if (options.partial !== true) wholeStore(() => ({ under, store, transfer }));
  });
}

interface Given {
  readonly under: StoreUnderTest;
  readonly store: Store;
  readonly transfer: ReturnType<typeof recordingTransfer>;
}

/** What only a store does that also forgets and unpacks. */
function wholeStore(given: () => Given): void {
  const platform = { os: 'linux', architecture: 'amd64' };
  const now = { olderThanMs: 0, keep: [] as readonly Digest[] };
  const gone = { blobs: 3, layers: 1 };

  async function image(store: Store): Promise<Awaited<ReturnType<typeof makeImage>>> {
    const made = await makeImage(store, { platform, files: { f: 'x' }, reference: 'localhost/a:1' });
    await store.lowers(made, undefined, given().transfer);
    return made;
  }

  it('K1 keeps what has a name, is leased, or is asked for, and takes the rest', async () => {
    const { under, store } = given();
    const { digest } = await image(store);
    expect(await store.prune(now)).toMatchObject({ blobs: 0, layers: 0 });
    await store.untag('localhost/a:1');
    expect(await store.prune({ ...now, keep: [digest] })).toMatchObject({ blobs: 0, layers: 0 });
    const lease = await store.lease('run', [digest], { ttlMs: 0 });
    expect(await ((await under.reopen?.()) ?? store).prune(now)).toMatchObject({ blobs: 0, layers: 0 });
    await lease[Symbol.asyncDispose]();
    expect(await store.prune({ ...now, olderThanMs: 3_600_000 })).toMatchObject({ blobs: 0, layers: 0 });
    const pruned = await store.prune(now);
    expect(pruned).toMatchObject(gone);
    expect(pruned.freedBytes).toBeGreaterThan(500);
    expect(await store.hasBlob(digest)).toBe(false);
  });

  it('finds nothing wrong with itself', async () => {
    const { store, transfer } = given();
    await image(store);
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
    expect(await store.fsck({ repair: true, ...transfer })).toEqual([]);
  });
}
