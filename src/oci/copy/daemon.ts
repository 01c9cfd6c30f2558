import { mkdir, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createHttpClient, type HttpResponse, isHttpFailure } from '../../kernel/http/index.ts';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { digestOf, digestParts, familiarReference } from '../names/index.ts';
import type { TransferOptions } from '../port.ts';
import type { Reference } from '../types.ts';
import { openArchive } from './archive-files.ts';
import { stagedTarget } from './archive-targets.ts';
import { dockerArchiveSource } from './docker-source.ts';
import { CONVERTED, writeDockerArchive } from './docker-target.ts';
import { readRange } from './files.ts';
import { writing } from './layout-target.ts';
import type { ImageSource, ImageTarget } from './types.ts';

const ANSWER_LIMIT = 1 << 20;

export interface DaemonOptions {
  readonly name: string;
  /** Path of the daemon's unix socket. */
  readonly socketPath: string;
  /** A folder for what the daemon gives and gets, which it does in one piece. */
  readonly scratch: string;
}

interface Asked extends TransferOptions {
  readonly method?: 'POST';
  readonly body?: AsyncIterable<Uint8Array>;
  readonly contentLength?: number;
}

/** Docker Engine API, "Export an image" and "Import images", at the version that the daemon itself names. */
async function ask<T>(
  { socketPath }: DaemonOptions,
  path: string,
  { signal, method, body, contentLength, use }: Asked & { use(answer: HttpResponse): Promise<T> },
): Promise<T> {
  await using http = createHttpClient({ socketPath, deadlines: { firstByteMs: 0, idleMs: 0 } });
  try {
    const ping = await http.request({ url: 'http://docker/_ping', signal });
    const version = ping.headers['api-version'];
    await ping.discard();
    const prefix = typeof version === 'string' && /^[0-9.]{1,8}$/.test(version) ? `/v${version}` : '';
    const answer = await http.request({
      url: `http://docker${prefix}${path}`,
      signal,
      ...(method === undefined ? {} : { method, headers: { 'content-type': 'application/x-tar' } }),
      ...(body === undefined ? {} : { body }),
      ...(contentLength === undefined ? {} : { contentLength }),
    });
    return await use(answer);
  } catch (error) {
    if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while the Docker daemon was asked');
    if (!isHttpFailure(error)) throw error;
    const hint =
      error.code === 'EACCES'
        ? 'add yourself to the group that owns the socket'
        : 'start Docker (systemctl start docker), or set DOCKER_HOST';
    throw ociError(
      'OCI_DAEMON_UNREACHABLE',
      `no Docker daemon answers on ${socketPath} (${error.code ?? error.message})`,
      { hint, cause: error },
    );
  }
}

async function wordsOf(answer: HttpResponse): Promise<string> {
  const text = await answer.text(ANSWER_LIMIT).catch(() => '');
  try {
    const { message } = JSON.parse(text) as { readonly message?: unknown };
    if (typeof message === 'string') return message;
  } catch {
    // Not JSON: its own words will do.
  }
  return text.slice(0, 200);
}

/**
 * An image of the Docker daemon. The daemon gives it as an archive in one piece, which is kept in `scratch` meanwhile.
 *
 * @throws OCI_DAEMON_UNREACHABLE, OCI_DAEMON_REFUSED, OCI_IMAGE_MISSING, DISK_FULL
 */
export async function daemonSource(
  image: string,
  options: DaemonOptions & TransferOptions,
): Promise<ImageSource> {
  const path = join(
    options.scratch,
    `daemon-${digestParts(digestOf(image)).hex.slice(0, 16)}-${process.pid}.tar`,
  );
  try {
    await save(image, path, options);
    const source = await dockerArchiveSource(await openArchive(path), { name: options.name, at: 0 });
    return {
      ...source,
      made: 'the Docker daemon gives no manifest, so one was made',
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]();
        await rm(path, { force: true });
      },
    };
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

async function save(image: string, path: string, options: DaemonOptions & TransferOptions): Promise<void> {
  await ask(options, `/images/${encodeURIComponent(image)}/get`, {
    ...options,
    async use(answer) {
      if (answer.status === 404) {
        throw ociError('OCI_IMAGE_MISSING', `the Docker daemon has no image ${image}`, {
          hint: '`docker image ls` shows what it has',
        });
      }
      if (answer.status !== 200) throw refused(answer.status, await wordsOf(answer));
      await writing(path, mkdir(dirname(path), { recursive: true, mode: 0o700 }));
      const handle = await writing(path, open(path, 'w', 0o600));
      try {
        for await (const chunk of answer.body) {
          for (let at = 0; at < chunk.length; ) {
            at += (await writing(path, handle.write(chunk, at, chunk.length - at))).bytesWritten;
          }
        }
      } finally {
        await handle.close();
      }
    },
  });
}

function refused(status: number, words: string): Error {
  return ociError('OCI_DAEMON_REFUSED', `the Docker daemon refuses it (status ${status}): ${words}`, {
    hint: 'look at the daemon’s log',
  });
}

/** The Docker daemon, under a name: what `docker load` does. */
export async function daemonTarget(
  reference: Reference,
  options: DaemonOptions & { readonly signal: AbortSignal },
): Promise<ImageTarget> {
  const key = digestParts(digestOf(`${options.socketPath} ${familiarReference(reference)}`)).hex.slice(0, 16);
  const staging = join(options.scratch, `daemon-${key}`);
  return await stagedTarget({
    name: options.name,
    staging,
    signal: options.signal,
    single: CONVERTED,
    async finish({ files }, root, transfer) {
      const path = `${staging}.tar`;
      try {
        const finished = await writeDockerArchive(files, root, { ...transfer, path, reference });
        await load(path, { ...options, ...transfer });
        return finished;
      } finally {
        await rm(path, { force: true });
      }
    },
  });
}

async function load(path: string, options: DaemonOptions & TransferOptions): Promise<void> {
  await using handle = await open(path, 'r');
  const { size } = await handle.stat();
  await ask(options, '/images/load?quiet=1', {
    ...options,
    method: 'POST',
    body: readRange(handle, 0, size),
    contentLength: size,
    async use(answer) {
      if (answer.status !== 200) throw refused(answer.status, await wordsOf(answer));
      const said = await answer.text(ANSWER_LIMIT);
      // One JSON object a line; what went wrong after the answer's head was sent is in one of them.
      const fault = /"error":"((?:[^"\\]|\\.)*)"/.exec(said)?.[1];
      if (fault !== undefined) throw refused(answer.status, fault);
    },
  });
}
