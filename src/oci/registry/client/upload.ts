import { isHttpFailure } from '../../../kernel/http/index.ts';
import { isSkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import { isDigest, isRepositoryPath, quoted } from '../../names/index.ts';
import type { Descriptor, Digest } from '../../types.ts';
import { failureError } from './answer.ts';
import { openChunks } from './chunks.ts';
import { type Answer, askedWait, reasonOf } from './session.ts';
import { blobPath, pullScope, pushScope, type Target } from './target.ts';

/** GitHub's registry takes about 4 MiB a request. */
const FALLBACK_CHUNK = 4 * 1024 * 1024;
const SMALLEST_CHUNK = 64 * 1024;

export type BlobSource = (offset: number) => AsyncIterable<Uint8Array>;

export interface UploadOptions {
  readonly chunkSize: number | undefined;
  readonly mountFrom: string | undefined;
}

interface UploadSession {
  readonly location: URL;
  /** `OCI-Chunk-Min-Length`. */
  readonly minChunk: number;
}

export async function hasBlob(target: Target, digest: Digest): Promise<boolean> {
  const { host, repository, subject, options, caller } = target;
  const path = blobPath(target, digest);
  const { response, url } = await caller.call({
    method: 'HEAD',
    host,
    repository,
    path,
    subject: `${subject}, blob ${digest}`,
    options,
    scopes: [pullScope(repository)],
    // Storage behind a redirect may refuse HEAD on an address signed for GET: then it is not known to be there.
    accept: [200, 404, 405, 403, 400],
    lane: 'control',
  });
  await response.discard();
  if (response.status === 200) return true;
  const elsewhere = url.origin !== (await host.origin(options.signal)).origin;
  if (response.status === 404 || elsewhere) return false;
  if (response.status !== 405) {
    throw ociError(
      response.status === 403 ? 'REGISTRY_FORBIDDEN' : 'REGISTRY_REFUSED',
      `${subject}: ${host.name} does not say whether it has ${digest} (status ${response.status})`,
      {
        hint: 'ask for access to the repository, or log in as someone who has it',
      },
    );
  }
  return await probe(target, digest);
}

/** For registries without HEAD. */
async function probe(target: Target, digest: Digest): Promise<boolean> {
  const { host, repository, subject, options, caller } = target;
  const { response } = await caller.call({
    host,
    repository,
    path: blobPath(target, digest),
    subject,
    options,
    scopes: [pullScope(repository)],
    accept: [200, 206, 404],
    headers: { range: 'bytes=0-0' },
    lane: 'control',
  });
  await response.discard();
  return response.status !== 404;
}

export async function putBlob(
  target: Target,
  blob: Descriptor,
  source: BlobSource,
  settings: UploadOptions,
): Promise<'present' | 'mounted' | 'uploaded'> {
  if (await hasBlob(target, blob.digest)) return 'present';
  const { mountFrom } = settings;
  const mounted =
    mountFrom === undefined || mountFrom === target.repository
      ? undefined
      : await mount(target, blob.digest, mountFrom);
  if (mounted === 'mounted') return 'mounted';
  await upload(target, blob, source, { ...settings, session: mounted });
  return 'uploaded';
}

/** A mount that is refused in any way is an upload: registries refuse with 401, 403, 404 or 405. */
async function mount(
  target: Target,
  digest: Digest,
  from: string,
): Promise<'mounted' | UploadSession | undefined> {
  const { host, repository, subject, options, caller } = target;
  if (!isRepositoryPath(from)) {
    throw ociError('REFERENCE_INVALID', `${quoted(from)} is not a repository of ${host.name}`, {
      hint: 'name it without the registry',
    });
  }
  const query = new URLSearchParams({ mount: digest, from });
  let answer: Answer;
  try {
    answer = await caller.call({
      method: 'POST',
      host,
      repository,
      path: `${repository}/blobs/uploads/?${query}`,
      subject,
      options,
      // The target first: some servers grant the first scope only. Without pull on the source nothing is mounted.
      scopes: [pushScope(repository), pullScope(from)],
      accept: [200, 201, 202, 400, 401, 403, 404, 405],
      lane: 'control',
    });
  } catch (error) {
    // A token server that refuses the second scope outright.
    if (isSkycapError(error, 'REGISTRY_UNAUTHORIZED') || isSkycapError(error, 'REGISTRY_FORBIDDEN'))
      return undefined;
    throw error;
  }
  await answer.response.discard();
  if (answer.response.status === 201 || answer.response.status === 200) return 'mounted';
  return answer.response.status === 202 ? sessionOf(target, answer) : undefined;
}

async function begin(target: Target): Promise<UploadSession> {
  const { host, repository, subject, options, caller } = target;
  const answer = await caller.call({
    method: 'POST',
    host,
    repository,
    path: `${repository}/blobs/uploads/`,
    subject,
    options,
    scopes: [pushScope(repository)],
    accept: [202],
    lane: 'control',
  });
  await answer.response.discard();
  return sessionOf(target, answer);
}

/** The next address of the upload: relative or absolute, with or without a query, here or elsewhere. */
function sessionOf(target: Target, answer: Answer, before?: UploadSession): UploadSession {
  const { response, url } = answer;
  const location = response.values('location')[0];
  if (location === undefined && before !== undefined) return before;
  if (location === undefined || !URL.canParse(location, url.href)) {
    throw ociError(
      'REGISTRY_ANSWER_INVALID',
      `${target.subject}: ${target.host.name} does not say where to upload`,
      {
        hint: 'ask who runs the registry',
      },
    );
  }
  const next = new URL(location, url);
  // Registries behind a TLS proxy often know only the http side of their own address.
  if (url.protocol === 'https:' && next.protocol === 'http:' && next.hostname === url.hostname) {
    next.protocol = 'https:';
    next.port = url.port;
  }
  try {
    target.host.checkTarget(next);
  } catch (error) {
    throw failureError(error, target.subject);
  }
  const min = Number(response.values('oci-chunk-min-length')[0] ?? before?.minChunk ?? 0);
  return { location: next, minChunk: Number.isSafeInteger(min) && min > 0 ? min : 0 };
}

function closing(session: UploadSession, digest: Digest): URL {
  const url = new URL(session.location);
  // Appended as text: whatever the registry's own query looks like, it comes back unchanged.
  url.search = `${url.search === '' ? '?' : `${url.search}&`}digest=${encodeURIComponent(digest)}`;
  return url;
}

async function upload(
  target: Target,
  blob: Descriptor,
  source: BlobSource,
  settings: UploadOptions & { readonly session: UploadSession | undefined },
): Promise<void> {
  const { caller, options, host } = target;
  const attempt = caller.begin();
  let pending = settings.session;
  let chunkSize =
    settings.chunkSize !== undefined && blob.size > settings.chunkSize ? settings.chunkSize : undefined;
  let renewed = false;
  for (;;) {
    const session: UploadSession = pending ?? (await begin(target));
    pending = undefined;
    try {
      if (chunkSize === undefined) await whole(target, blob, source, session);
      else await chunked(target, blob, source, { session, chunkSize });
      return;
    } catch (error) {
      options.signal.throwIfAborted();
      if (isTooLarge(error)) {
        const next: number = chunkSize === undefined ? FALLBACK_CHUNK : Math.floor(chunkSize / 2);
        if (next < SMALLEST_CHUNK || blob.size <= SMALLEST_CHUNK) throw error;
        chunkSize = next;
        continue;
      }
      // A token that ended under way: the body goes again, with a new one, once.
      const expired: boolean = isSkycapError(error, 'REGISTRY_UNAUTHORIZED') && !renewed;
      if (!expired && !isPassing(error)) throw error;
      renewed ||= expired;
      if (expired) continue;
      await caller.pause(attempt, error, {
        askedMs: askedWait(error),
        transfer: options,
        registry: host.name,
        reason: reasonOf(error),
      });
    }
  }
}

function isPassing(error: unknown): boolean {
  return ['REGISTRY_TRUNCATED', 'REGISTRY_BUSY', 'REGISTRY_UNREACHABLE'].some((code) =>
    isSkycapError(error, code),
  );
}

function isTooLarge(error: unknown): boolean {
  const status = isSkycapError(error) ? error.details?.status : undefined;
  return status === 413 || status === 416;
}

async function whole(
  target: Target,
  blob: Descriptor,
  source: BlobSource,
  session: UploadSession,
): Promise<void> {
  const { host, repository, subject, options, caller } = target;
  const body = blob.size === 0 ? new Uint8Array(0) : counted(target, blob, source(0));
  const { response } = await caller.call({
    method: 'PUT',
    host,
    repository,
    path: closing(session, blob.digest),
    subject: `${subject}, blob ${blob.digest}`,
    options,
    scopes: [pushScope(repository)],
    accept: [200, 201, 204],
    headers: { 'content-type': 'application/octet-stream' },
    body,
    contentLength: blob.size,
    replayable: blob.size === 0,
    lane: 'write',
  });
  await confirm(target, blob, response);
}

async function* counted(
  target: Target,
  blob: Descriptor,
  parts: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  let done = 0;
  for await (const part of parts) {
    done += part.length;
    if (done > blob.size) throw sourceError(target, blob);
    yield part;
    target.options.emit({
      type: 'blob.progress',
      digest: blob.digest,
      doneBytes: done,
      sizeBytes: blob.size,
    });
  }
  if (done !== blob.size) throw sourceError(target, blob);
}

function sourceError(target: Target, blob: Descriptor): Error {
  return ociError(
    'OCI_BLOB_CORRUPT',
    `${target.subject}: the blob ${blob.digest} to push does not have its ${blob.size} bytes`,
    {
      hint: 'check the store with: skycap image fsck',
    },
  );
}

async function chunked(
  target: Target,
  blob: Descriptor,
  source: BlobSource,
  start: { readonly session: UploadSession; readonly chunkSize: number },
): Promise<void> {
  const { host, repository, options, caller } = target;
  const subject = `${target.subject}, blob ${blob.digest}`;
  const size = Math.max(start.chunkSize, start.session.minChunk);
  const common = { host, repository, subject, options, scopes: [pushScope(repository)], lane: 'write' };
  await using chunks = openChunks(source, { size: blob.size, onMismatch: () => sourceError(target, blob) });
  let { session } = start;
  let misses = 0;
  let offset = 0;
  for (;;) {
    const chunk = await chunks.at(offset, size);
    const end = offset + chunk.length;
    const last = end === blob.size;
    const headers = {
      'content-type': 'application/octet-stream',
      // Without the `bytes ` of RFC 9110: distribution-spec, "Pushing a blob in chunks".
      'content-range': chunk.length === 0 ? undefined : `${offset}-${end - 1}`,
    };
    // The last chunk goes with the closing request: some registries fail on an empty one.
    const answer = last
      ? await caller.call({
          ...common,
          method: 'PUT',
          path: closing(session, blob.digest),
          headers,
          body: chunk,
          accept: [200, 201, 204, 416],
        })
      : await caller.call({
          ...common,
          method: 'PATCH',
          path: session.location,
          headers,
          body: chunk,
          accept: [200, 202, 204, 416],
        });
    if (answer.response.status !== 416) {
      if (last) return await confirm(target, blob, answer.response);
      await answer.response.discard();
      session = sessionOf(target, answer, session);
      offset = acknowledged(answer, offset, end);
      options.emit({ type: 'blob.progress', digest: blob.digest, doneBytes: offset, sizeBytes: blob.size });
      continue;
    }
    // Out of step, perhaps because an earlier try had got through: ask how far it is.
    await answer.response.discard();
    misses += 1;
    const status = await caller.call({ ...common, path: session.location, accept: [204, 200, 202] });
    await status.response.discard();
    session = sessionOf(target, status, session);
    const there = acknowledged(status, 0, blob.size);
    if (misses > 3 || there === offset) throw outOfStep(target, blob);
    offset = there;
  }
}

/** `Range: 0-<last byte>`; believed only between what was there before and what was sent. */
function acknowledged(answer: Answer, before: number, sent: number): number {
  const match = /^(?:bytes=)?0-(\d+)$/.exec(answer.response.values('range')[0] ?? '');
  if (match === null) return sent;
  const end = Number(match[1]) + 1;
  // "0-0" is also what an empty session says.
  if (end === 1 && before === 0 && sent > 1) return 0;
  return end > before && end <= sent ? end : sent;
}

function outOfStep(target: Target, blob: Descriptor): Error {
  return ociError(
    'REGISTRY_REFUSED',
    `${target.subject}: ${target.host.name} refuses the chunks of ${blob.digest}`,
    {
      hint: 'try another chunk size',
      details: { status: 416 },
    },
  );
}

async function confirm(target: Target, blob: Descriptor, response: Answer['response']): Promise<void> {
  await response.discard().catch((error: unknown) => {
    if (!isHttpFailure(error)) throw error;
  });
  const said = response.values('docker-content-digest')[0];
  if (isDigest(said) && said.slice(0, 7) === blob.digest.slice(0, 7) && said !== blob.digest) {
    throw ociError(
      'REGISTRY_ANSWER_INVALID',
      `${target.subject}: ${target.host.name} stored ${said} instead of ${blob.digest}`,
      {
        hint: 'ask who runs the registry',
      },
    );
  }
}
