import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createHttpClient } from '../../kernel/http/index.ts';
import type { Descriptor, ServedRegistry, ServeOptions } from '../../oci/index.ts';
import { digestOf } from '../../oci/names/index.ts';
import { serveRegistry } from '../../oci/registry/server/index.ts';
import { TEST_CA } from './certificates.ts';
import { type MemoryStore, memoryStore } from './memory-store.ts';

export const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
export const INDEX = 'application/vnd.oci.image.index.v1+json';
export const LAYER = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 253));

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  /** Of the first error in the body, which has to say something. */
  readonly code: string | undefined;
  readonly message: string | undefined;
}

interface Sent {
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | string;
}

/** The built-in registry over a store in memory, and someone who asks it. */
export interface ServedWorld extends AsyncDisposable {
  readonly directory: string;
  readonly store: MemoryStore;
  /** Throws before `start`. */
  readonly served: ServedRegistry;
  start(options?: Partial<ServeOptions>): Promise<ServedRegistry>;
  /** `GET /v2/`; a path, or a whole address. */
  ask(line: string, sent?: Sent): Promise<Answer>;
  /** An image of one layer, named in the store. */
  image(reference: string): Promise<{ manifest: Descriptor; layer: Descriptor; text: string }>;
  /** Pushes a blob to the repository `a`. */
  upload(bytes: Uint8Array | string, digest?: string): Promise<Answer>;
}

export const manifestOf = (config: Descriptor, layers: readonly Descriptor[], more: object = {}): string =>
  JSON.stringify({ schemaVersion: 2, mediaType: IMAGE, config, layers, ...more });

export async function servedWorld(): Promise<ServedWorld> {
  const directory = await mkdtemp(join(tmpdir(), 'served-'));
  const store = memoryStore(directory);
  const http = createHttpClient();
  const trusting = createHttpClient({ tls: { ca: [TEST_CA] } });
  let served: ServedRegistry | undefined;
  const running = (): ServedRegistry => {
    if (served === undefined) throw new Error('not started');
    return served;
  };

  async function ask(line: string, sent: Sent = {}): Promise<Answer> {
    const [method = '', path = ''] = line.split(' ');
    const url = path.startsWith('http') ? path : `${running().url}${path}`;
    const client = url.startsWith('https') ? trusting : http;
    const response = await client.request({ method, url, ...sent });
    const body = Buffer.from(await response.bytes(1e7));
    let code: string | undefined;
    let message: string | undefined;
    try {
      const said = JSON.parse(body.toString()) as { errors?: { code: string; message?: string }[] };
      const error = said.errors?.[0];
      message = error?.message;
      code = error?.message === '' ? `${error.code} without words` : error?.code;
    } catch {}
    return { status: response.status, headers: response.headers, body, code, message };
  }

  return {
    directory,
    store,
    get served() {
      return running();
    },
    start: async (options = {}) => {
      await served?.close();
      served = await serveRegistry({ store, ...options });
      return served;
    },
    ask,
    image: async (reference) => {
      const config = await store.add('{}', 'application/vnd.oci.image.config.v1+json');
      const layer = await store.add(LAYER, 'application/vnd.oci.image.layer.v1.tar');
      const text = manifestOf(config, [layer]);
      const manifest = await store.add(text, IMAGE);
      await store.tag(reference, manifest);
      return { manifest, layer, text };
    },
    upload: async (bytes, digest = digestOf(bytes)) => {
      const begun = await ask('POST /v2/a/blobs/uploads/');
      return await ask(`PUT ${begun.headers.location}?digest=${digest}`, { body: bytes });
    },
    [Symbol.asyncDispose]: async () => {
      await served?.close();
      await http[Symbol.asyncDispose]();
      await trusting[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
