import { describe, expect, it } from 'vitest';
import { asking, codeOf, collect, type Reply, scriptedRegistry } from '../../../testkit/registry/index.ts';
import { here, pushBlob, START, UPLOADS } from '../../../testkit/registry/pushing.ts';
import { digestOf } from '../../names/index.ts';
import type { Descriptor } from '../../types.ts';
import type { RegistryClientOptions } from './types.ts';

const BYTES = Buffer.alloc(20_000, 'b');
const BLOB: Descriptor = { mediaType: 'x', digest: digestOf(BYTES), size: BYTES.length };
const BODY = JSON.stringify({
  schemaVersion: 2,
  config: {},
  layers: [],
  annotations: { x: 'y'.repeat(500) },
});
const manifest: Reply = {
  headers: { 'content-type': 'application/vnd.oci.image.manifest.v1+json' },
  body: BODY,
};
const KEY = 'GET /v2/team/app/manifests/1';

async function blob(reply: Reply, options: RegistryClientOptions): Promise<Buffer | string> {
  await using registry = await scriptedRegistry({ [`GET /v2/team/app/blobs/${BLOB.digest}`]: reply });
  await using asked = asking({ retry: { attempts: 2 }, ...options });
  let found: Buffer | string = '';
  const read = async (): Promise<void> => {
    found = await collect(await asked.client.getBlob(asked.at(registry.host), BLOB, 0, asked.options));
  };
  const code = await codeOf(read());
  return code === 'no error' ? found : code;
}

describe('a slow registry', () => {
  it('R119 that drips a blob counts as broken, one that is slow but steady does not', async () => {
    const drip = { body: BYTES, drip: { bytes: 10, everyMs: 10 } };
    expect(await blob(drip, { deadlines: { idleMs: 200, idleBytes: 4000 } })).toBe('REGISTRY_UNREACHABLE');
    const steady = { body: BYTES, drip: { bytes: 2000, everyMs: 10 } };
    expect(await blob(steady, { deadlines: { idleMs: 5000, idleBytes: 4000 } })).toEqual(BYTES);
  });

  it('R119 that falls silent counts as broken: before its answer and within', async () => {
    expect(await blob({ silent: true }, { deadlines: { firstByteMs: 100 } })).toBe('REGISTRY_UNREACHABLE');
    const stuck = { body: BYTES, drip: { bytes: 100, everyMs: 60_000 } };
    expect(await blob(stuck, { deadlines: { idleMs: 100 } })).toBe('REGISTRY_UNREACHABLE');
  });

  it('R119 that takes no more of an upload counts as broken', async () => {
    const big = Buffer.alloc(30_000_000);
    const outcome = await pushBlob(
      { [START]: here(), [`PUT ${UPLOADS}1`]: { status: 201 } },
      {
        bytes: big,
        blob: { ...BLOB, digest: digestOf(big), size: big.length },
        client: { deadlines: { idleMs: 200 }, retry: { attempts: 2 } },
        scripted: { deaf: (request) => request.method === 'PUT' },
      },
    );
    expect(outcome.result).toBe('REGISTRY_UNREACHABLE');
  });

  it('R120 has its answer whole within a time of its own, however alive it seems', async () => {
    await using registry = await scriptedRegistry({
      [KEY]: { ...manifest, drip: { bytes: 1, everyMs: 10 } },
    });
    await using asked = asking({ answerMs: 300, deadlines: { idleBytes: 1 } });
    await expect(asked.client.getManifest(asked.at(registry.host), asked.options)).rejects.toMatchObject({
      code: 'REGISTRY_UNREACHABLE',
      message: `${registry.host}/team/app:1: no whole answer within 0.3 s`,
    });
  });

  it('R120 cannot draw out a list with ever new pages', async () => {
    let page = 0;
    await using registry = await scriptedRegistry({
      'GET /v2/team/app/tags/list': () => {
        page += 1;
        return { body: '{"tags":[]}', headers: { link: `<?p=${page}>; rel="next"` } };
      },
    });
    await using asked = asking({ answerMs: 300 });
    expect(await codeOf(asked.client.listTags(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_UNREACHABLE',
    );
  });

  it('R120 is waited for without that limit where 0 is given, and the signal counts before it', async () => {
    await using registry = await scriptedRegistry({
      [KEY]: { ...manifest, drip: { bytes: 50, everyMs: 5 } },
    });
    await using asked = asking({ answerMs: 0, deadlines: { idleBytes: 1 } });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    const reason = new Error('enough');
    const options = { ...asked.options, signal: AbortSignal.abort(reason) };
    await expect(asked.client.getManifest(asked.at(registry.host), options)).rejects.toBe(reason);
  });
});

describe('a declared size', () => {
  const huge: Descriptor = { ...BLOB, size: 2 ** 50 };

  it('R114 R156 is never memory: neither of a blob to read', async () => {
    await using registry = await scriptedRegistry({
      [`GET /v2/team/app/blobs/${BLOB.digest}`]: {
        body: BYTES,
        headers: { 'transfer-encoding': 'chunked', 'content-length': [] },
      },
    });
    await using asked = asking({ retry: { attempts: 1 } });
    const read = async (): Promise<void> => {
      await collect(await asked.client.getBlob(asked.at(registry.host), huge, 0, asked.options));
    };
    expect(await codeOf(read())).toBe('REGISTRY_TRUNCATED');
  });

  it('R114 R156 nor of one to send, whole or in chunks', async () => {
    for (const client of [{}, { chunkSize: 65_536 }]) {
      const outcome = await pushBlob(
        { [START]: here(), [`PATCH ${UPLOADS}1`]: here() },
        { blob: huge, bytes: BYTES, client },
      );
      expect(outcome.result).toBe('OCI_BLOB_CORRUPT');
    }
  });

  it('R114 R156 nor of a manifest or list that is announced', async () => {
    const headers = { 'content-length': String(2 ** 50) };
    await using registry = await scriptedRegistry({
      [KEY]: { headers },
      'GET /v2/team/app/tags/list': { headers },
    });
    await using asked = asking();
    const at = asked.at(registry.host);
    expect(await codeOf(asked.client.getManifest(at, asked.options))).toBe('REGISTRY_ANSWER_TOO_LARGE');
    expect(await codeOf(asked.client.listTags(at, asked.options))).toBe('REGISTRY_ANSWER_TOO_LARGE');
  });
});
