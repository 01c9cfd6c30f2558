import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { makeImage, recordingTransfer, storeRegistry } from '../../../testkit/images/index.ts';
import { pullImage } from '../../image/index.ts';
import { type LayoutStore, openStore } from '../../store/index.ts';
import { serveRegistry } from './index.ts';

const platform = { os: 'linux', architecture: 'amd64' };
const transfer = recordingTransfer();
const reference = 'docker.io/library/tool:1';
let directory: string;
let remote: LayoutStore;
let store: LayoutStore;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-again-'));
  remote = await openStore({ directory: join(directory, 'remote') });
  store = await openStore({ directory: join(directory, 'store') });
});
afterEach(async () => {
  await remote[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** As another process does, which knows nothing of the server. */
async function pull(): Promise<void> {
  await using other = await openStore({ directory: store.directory });
  await pullImage(storeRegistry(remote), other, reference, { ...transfer, platform });
}

it.each(['with its bytes there', 'after a prune'])(
  'a blob that alone was deleted is there again once its image is pulled again, %s',
  async (how) => {
    const image = await makeImage(remote, { platform, files: { f: 'x' }, reference });
    await pull();
    const layer = image.layers[0]?.digest;
    const served = await serveRegistry({ store, writable: true });
    try {
      const ask = async (line: string, init: RequestInit = {}): Promise<Response> => {
        const [method = '', path = ''] = line.split(' ');
        return await fetch(`${served.url}${path}`, { method, ...init });
      };
      const status = async (line: string): Promise<number> => {
        const answer = await ask(line);
        await answer.arrayBuffer();
        return answer.status;
      };
      const blob = `/v2/tool/blobs/${layer}`;
      // What is pushed elsewhere is there alone.
      const manifest = await ask('GET /v2/tool/manifests/1');
      const headers = { 'content-type': manifest.headers.get('content-type') ?? '' };
      const put = { body: await manifest.arrayBuffer(), headers };
      for (const _time of [1, 2]) {
        expect([await status(`DELETE ${blob}`), await status(`GET ${blob}`)]).toEqual([202, 404]);
        expect((await ask('PUT /v2/other/manifests/1', put)).status).toBe(201);
        expect([await status(`GET ${blob}`), await status(`GET /v2/other/blobs/${layer}`)]).toEqual([
          404, 200,
        ]);
        if (how === 'after a prune') {
          for (const one of await store.list()) await store.untag(one.reference);
          await store.endLeases('registry push');
          await store.prune({ olderThanMs: 0, keep: [] });
          expect(await store.list()).toEqual([]);
        }
        await pull();
        expect(await status(`GET ${blob}`)).toBe(200);
      }
    } finally {
      await served.close();
    }
    await using again = await serveRegistry({ store });
    expect((await fetch(`${again.url}/v2/tool/blobs/${layer}`)).status).toBe(200);
  },
);
