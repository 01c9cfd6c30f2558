import { isSkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import type { Descriptor } from '../../types.ts';
import { type Answer, PROGRESS } from './caller.ts';
import { openChunks } from './chunks.ts';
import { pushScope, type Target } from './target.ts';
import {
  closing,
  confirm,
  positionOf,
  rangeEnd,
  sessionOf,
  type UploadPosition,
  type UploadSession,
} from './upload-session.ts';

/** The blob's bytes from `offset` on; may be asked for again. */
export type BlobSource = (offset: number) => AsyncIterable<Uint8Array>;

export interface Sending {
  readonly target: Target;
  readonly blob: Descriptor;
  readonly source: BlobSource;
  /** All of a small blob. */
  readonly bytes?: Uint8Array;
}

/** A small blob is read once, however often it is sent. */
export async function held(sending: Sending): Promise<Sending> {
  const parts: Uint8Array[] = [];
  for await (const part of checked(sending, 0)) parts.push(part);
  return { ...sending, bytes: Buffer.concat(parts, sending.blob.size) };
}

const OCTETS = 'application/octet-stream';
/** Times that a registry may refuse, or contradict itself about how far it is, before there is progress again. */
const MOST_MISSES = 3;

/**
 * The blob with the opening POST (distribution-spec, "Single POST"). A registry that does not take it so answers 202,
 * with a session that is as good as any; whatever else it answers decides nothing.
 */
export async function sendSingle(sending: Sending): Promise<'uploaded' | UploadSession | undefined> {
  const { target, blob } = sending;
  const { host, repository, options, caller } = target;
  let answer: Answer;
  try {
    answer = await caller.call({
      method: 'POST',
      host,
      repository,
      path: `${repository}/blobs/uploads/?${new URLSearchParams({ digest: blob.digest })}`,
      subject: `${target.subject}, blob ${blob.digest}`,
      options,
      scopes: [pushScope(repository)],
      accept: [201, 202],
      headers: { 'content-type': OCTETS },
      ...bodyOf(sending, 0),
      replayable: false,
      lane: 'write',
    });
  } catch (error) {
    options.signal.throwIfAborted();
    if (isSkycapError(error) && error.code.startsWith('REGISTRY_')) return undefined;
    throw error;
  }
  if (answer.response.status === 202) {
    await answer.response.discard();
    return sessionOf(target, answer);
  }
  await confirm(target, blob, answer.response);
  progress(target, blob, blob.size);
  return 'uploaded';
}

/** All that is missing, with the closing PUT. */
export async function sendRest(sending: Sending, from: UploadPosition): Promise<void> {
  const { target, blob } = sending;
  const { host, repository, subject, options, caller } = target;
  const isRest = from.offset > 0 && from.offset < blob.size;
  const { response } = await caller.call({
    method: 'PUT',
    host,
    repository,
    path: closing(from.session, blob.digest),
    subject: `${subject}, blob ${blob.digest}`,
    options,
    scopes: [pushScope(repository)],
    accept: [200, 201, 204],
    headers: {
      'content-type': OCTETS,
      'content-range': isRest ? contentRange(from.offset, blob.size) : undefined,
    },
    ...bodyOf(sending, from.offset),
    lane: 'write',
  });
  await confirm(target, blob, response);
  if (sending.bytes !== undefined) progress(target, blob, blob.size);
}

/** Without the `bytes ` of RFC 9110: distribution-spec, "Pushing a blob in chunks". */
function contentRange(from: number, end: number): string {
  return `${from}-${end - 1}`;
}

function bodyOf(
  sending: Sending,
  offset: number,
): {
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
  readonly contentLength: number;
  readonly replayable: boolean;
} {
  const length = sending.blob.size - offset;
  if (length === 0) return { body: new Uint8Array(0), contentLength: 0, replayable: true };
  // Sent again only after a look at what of it had arrived.
  const common = { contentLength: length, replayable: false };
  if (sending.bytes !== undefined) return { body: sending.bytes.subarray(offset), ...common };
  return { body: counted(sending, offset), ...common };
}

async function* counted(sending: Sending, offset: number): AsyncGenerator<Uint8Array, void> {
  const { target, blob } = sending;
  let done = offset;
  for await (const part of checked(sending, offset)) {
    yield part;
    done += part.length;
    progress(target, blob, done);
  }
}

/** The declared size and no byte more or less: what was announced to the registry has to come. */
async function* checked(sending: Sending, offset: number): AsyncGenerator<Uint8Array, void> {
  const { target, blob, source } = sending;
  let done = offset;
  for await (const part of source(offset)) {
    done += part.length;
    if (done > blob.size) throw sourceError(target, blob);
    yield part;
  }
  if (done !== blob.size) throw sourceError(target, blob);
}

function progress({ options }: Target, blob: Descriptor, doneBytes: number): void {
  options.emit({ type: 'blob.progress', digest: blob.digest, doneBytes, sizeBytes: blob.size });
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

export interface ChunkPolicy {
  /** Bytes; at least what the registry wants. */
  readonly size: number;
  /** Bytes below which chunks are not made smaller. */
  readonly smallest: number;
  /** Told the size of a chunk that the registry did not take. */
  readonly onRefused: (size: number) => void;
}

/** PATCH by PATCH; the last chunk goes with the closing PUT, since some registries fail on an empty one. */
export async function sendChunks(sending: Sending, from: UploadPosition, policy: ChunkPolicy): Promise<void> {
  const { target, blob, source, bytes } = sending;
  await using chunks = openChunks(bytes === undefined ? source : inMemory(bytes), {
    size: blob.size,
    onMismatch: () => sourceError(target, blob),
  });
  let { session, offset } = from;
  let { size } = policy;
  let misses = 0;
  let mark = offset;
  for (;;) {
    const chunk = await chunks.at(offset, size);
    const end = offset + chunk.length;
    const answer = await sendChunk(sending, { session, offset, chunk });
    const { status } = answer.response;
    if (status !== 413 && status !== 416) {
      if (end === blob.size) return await confirm(target, blob, answer.response);
      await answer.response.discard();
      session = sessionOf(target, answer, session);
      const there = acknowledged(answer, offset, end);
      // A registry that takes next to nothing of each chunk would keep us for good.
      if ((there - offset) * 4 < chunk.length) misses += 1;
      offset = there;
      progress(target, blob, offset);
      if (misses > MOST_MISSES) throw outOfStep(target, blob, status);
      if (offset - mark >= PROGRESS) {
        mark = offset;
        misses = 0;
      }
      continue;
    }
    // Out of step, perhaps because an earlier try had got through, or too large: ask how far the registry is.
    await answer.response.discard();
    const position = await positionOf(target, blob, session);
    misses += 1;
    if (position === undefined || misses > MOST_MISSES) throw outOfStep(target, blob, status);
    session = position.session;
    if (position.offset !== offset) {
      offset = position.offset;
      continue;
    }
    // It is where we thought it was: this chunk is what it does not take.
    const smaller = Math.max(Math.floor(Math.min(size, chunk.length) / 2), session.minChunk);
    if (smaller < policy.smallest || smaller >= chunk.length) throw outOfStep(target, blob, status);
    policy.onRefused(size);
    size = smaller;
  }
}

function inMemory(bytes: Uint8Array): BlobSource {
  return async function* (offset) {
    yield bytes.subarray(offset);
  };
}

async function sendChunk(
  { target, blob }: Sending,
  part: { readonly session: UploadSession; readonly offset: number; readonly chunk: Uint8Array },
): Promise<Answer> {
  const { session, offset, chunk } = part;
  const end = offset + chunk.length;
  const isLast = end === blob.size;
  const { host, repository, options, caller } = target;
  return await caller.call({
    host,
    repository,
    options,
    subject: `${target.subject}, blob ${blob.digest}`,
    scopes: [pushScope(repository)],
    lane: 'write',
    method: isLast ? 'PUT' : 'PATCH',
    path: isLast ? closing(session, blob.digest) : session.location,
    accept: isLast ? [200, 201, 204, 413, 416] : [200, 202, 204, 413, 416],
    headers: {
      'content-type': OCTETS,
      'content-range': chunk.length === 0 ? undefined : contentRange(offset, end),
    },
    body: chunk,
  });
}

/** Of a chunk that was taken; believed only between what was there before and what was sent. */
function acknowledged(answer: Answer, before: number, sent: number): number {
  const end = rangeEnd(answer.response);
  // "0-0" is what some registries always say.
  if (end === undefined || end === 1 || end <= before) return sent;
  return Math.min(end, sent);
}

function outOfStep(target: Target, blob: Descriptor, status: number): Error {
  return ociError(
    'REGISTRY_REFUSED',
    `${target.subject}: ${target.host.name} refuses the chunks of ${blob.digest}`,
    {
      hint: 'try another chunk size',
      details: { status },
    },
  );
}
