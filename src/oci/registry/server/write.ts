import { ignoreEvents, isSkycapError } from '../../../kernel/index.ts';
import { isDigest, isRepositoryPath } from '../../names/index.ts';
import type { Descriptor, Digest } from '../../types.ts';
import type { Content } from './content.ts';
import { type Exchange, Refused, reply } from './reply.ts';
import type { Route } from './route.ts';
import type { Upload, Uploads } from './uploads.ts';

type Of<K extends Route['kind']> = Extract<Route, { readonly kind: K }>;

/** Keeps what was pushed from being pruned before something names it. */
export type Protect = (digest: Digest) => Promise<void>;

export interface WriteContext {
  readonly content: Content;
  readonly uploads: Uploads;
  readonly protect: Protect;
  /** Whether manifests may lead to what is not here. */
  readonly sparse: boolean;
}

const MIN_CHUNK = 'oci-chunk-min-length';

export async function startUpload(
  exchange: Exchange,
  context: WriteContext,
  route: Of<'uploads'>,
): Promise<void> {
  const { repository } = route;
  const mount = exchange.query.get('mount');
  if (mount !== null && isDigest(mount) && (await mountable(exchange, context, mount))) {
    await context.protect(mount);
    await context.content.show(repository, mount);
    return stored(exchange, repository, mount);
  }
  const whole = exchange.query.get('digest');
  const digest = whole === null || mount !== null ? undefined : checkDigest(whole);
  const upload = await context.uploads.begin(repository);
  if (digest === undefined) return accepted(exchange, upload, 202);
  return await finish(exchange, context, { upload, digest });
}

async function mountable(exchange: Exchange, context: WriteContext, digest: Digest): Promise<boolean> {
  const from = exchange.query.get('from');
  if (from === null) return await context.content.store.hasBlob(digest);
  return isRepositoryPath(from) && (await context.content.hasBlob(from, digest));
}

function checkDigest(text: string): Digest {
  if (!isDigest(text)) throw new Refused(400, 'DIGEST_INVALID', 'not a digest');
  return text;
}

async function find(context: WriteContext, route: Of<'upload'>): Promise<Upload> {
  const upload = await context.uploads.find(route.id);
  if (upload === undefined || upload.repository !== route.repository)
    throw new Refused(404, 'BLOB_UPLOAD_UNKNOWN', 'no such upload');
  return upload;
}

function accepted(exchange: Exchange, upload: Upload, status: 202 | 204): void {
  const headers = {
    location: `/v2/${upload.repository}/blobs/uploads/${upload.id}`,
    range: `0-${Math.max(upload.size - 1, 0)}`,
    'docker-upload-uuid': upload.id,
    [MIN_CHUNK]: 1,
  };
  exchange.response.writeHead(status, status === 204 ? headers : { ...headers, 'content-length': 0 });
  exchange.response.end();
}

function stored(exchange: Exchange, repository: string, digest: Digest): void {
  reply(exchange, 201, { location: `/v2/${repository}/blobs/${digest}`, 'docker-content-digest': digest });
}

export async function uploadStatus(
  exchange: Exchange,
  context: WriteContext,
  route: Of<'upload'>,
): Promise<void> {
  accepted(exchange, await find(context, route), 204);
}

export async function cancelUpload(
  exchange: Exchange,
  context: WriteContext,
  route: Of<'upload'>,
): Promise<void> {
  await context.uploads.drop(await find(context, route));
  exchange.response.writeHead(204).end();
}

export async function appendUpload(
  exchange: Exchange,
  context: WriteContext,
  route: Of<'upload'>,
): Promise<void> {
  const upload = await find(context, route);
  await append(exchange, context, upload);
  accepted(exchange, upload, 202);
}

async function append(exchange: Exchange, context: WriteContext, upload: Upload): Promise<void> {
  const range = exchange.request.headers['content-range'];
  if (range !== undefined) {
    const match = /^(?:bytes )?(\d{1,15})-(\d{1,15})(?:\/(?:\d+|\*))?$/.exec(range);
    if (match === null || Number(match[1]) !== upload.size || Number(match[2]) < Number(match[1])) {
      throw new Refused(416, 'BLOB_UPLOAD_INVALID', 'the chunk does not follow what is here', {
        location: `/v2/${upload.repository}/blobs/uploads/${upload.id}`,
        range: `0-${Math.max(upload.size - 1, 0)}`,
      });
    }
    const length = exchange.request.headers['content-length'];
    if (length !== undefined && Number(length) !== Number(match[2]) - Number(match[1]) + 1) {
      throw new Refused(400, 'SIZE_INVALID', 'Content-Range and Content-Length differ');
    }
  }
  // Who names a range will ask how far it is; who does not may send the same from its beginning.
  await context.uploads.append(upload, exchange.request as AsyncIterable<Uint8Array>, range !== undefined);
}

export async function finishUpload(
  exchange: Exchange,
  context: WriteContext,
  route: Of<'upload'>,
): Promise<void> {
  const upload = await find(context, route);
  const digest = checkDigest(exchange.query.get('digest') ?? '');
  await finish(exchange, context, { upload, digest });
}

async function finish(
  exchange: Exchange,
  context: WriteContext,
  what: { readonly upload: Upload; readonly digest: Digest },
): Promise<void> {
  const { upload, digest } = what;
  const { content, uploads } = context;
  const announced = exchange.request.headers['content-length'];
  const direct =
    upload.size === 0 && exchange.request.headers['content-range'] === undefined && announced !== undefined;
  if (!direct) await append(exchange, context, upload);
  const size = direct ? Number(announced) : upload.size;
  await context.protect(digest);
  try {
    await ingest(exchange, content, {
      blob: { mediaType: 'application/octet-stream', digest, size },
      open: direct ? fromRequest(exchange) : (offset) => uploads.read(upload, offset),
    });
  } finally {
    await uploads.drop(upload);
  }
  await content.show(upload.repository, digest);
  stored(exchange, upload.repository, digest);
}

export type Open = (offset: number) => AsyncIterable<Uint8Array>;

/** A body comes once: bytes that the store still has of an earlier try are passed over, a second try fails. */
function fromRequest(exchange: Exchange): Open {
  let used = false;
  return async function* (offset) {
    if (used) throw new Refused(400, 'BLOB_UPLOAD_INVALID', 'the transfer ended early');
    used = true;
    let skip = offset;
    for await (const part of exchange.request as AsyncIterable<Buffer>) {
      const rest = part.subarray(Math.min(skip, part.length));
      skip -= part.length - rest.length;
      if (rest.length > 0) yield rest;
    }
  };
}

export async function ingest(
  exchange: Exchange,
  content: Content,
  what: { readonly blob: Descriptor; readonly open: Open },
): Promise<void> {
  try {
    await content.store.ingest(what.blob, async (offset) => what.open(offset), {
      signal: exchange.signal,
      emit: ignoreEvents,
    });
  } catch (error) {
    if (isSkycapError(error, 'OCI_BLOB_CORRUPT'))
      throw new Refused(400, 'DIGEST_INVALID', 'the bytes do not have this digest');
    throw error;
  }
}

export async function deleteBlob(
  exchange: Exchange,
  context: WriteContext,
  route: Of<'blob'>,
): Promise<void> {
  const { content } = context;
  const { repository, digest } = route;
  await content.exclusive(async () => {
    if (!(await content.hasBlob(repository, digest))) throw new Refused(404, 'BLOB_UNKNOWN', 'no such blob');
    await content.settle(repository);
    await content.hide(repository, digest);
  });
  reply(exchange, 202, {});
}
