import { HttpFailure, type HttpResponse, isHttpFailure } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import type { Descriptor } from '../../types.ts';
import { failureError } from './answer.ts';
import { PROGRESS, reasonOf } from './caller.ts';
import { blobPath, pullScope, type Target } from './target.ts';

interface Opened {
  readonly body: AsyncIterable<Uint8Array>;
  /** Bytes at the start that we already have. */
  readonly skip: number;
}

/**
 * The bytes of a blob from `offset` to its declared size, no more and no less. Broken transfers go on where they
 * ended. Whether the bytes are the right ones is the caller's to check.
 */
export async function openBlob(
  target: Target,
  blob: Descriptor,
  offset: number,
): Promise<AsyncIterable<Uint8Array>> {
  if (offset >= blob.size) return nothing();
  const first = await request(target, blob, offset);
  return stream(target, blob, { offset, first });
}

async function* nothing(): AsyncGenerator<Uint8Array, void> {}

async function request(target: Target, blob: Descriptor, offset: number): Promise<Opened> {
  const { host, repository, caller, options } = target;
  const subject = `${target.subject}, blob ${blob.digest}`;
  const ask = async (from: number): Promise<HttpResponse> => {
    const { response } = await caller.call({
      host,
      repository,
      path: blobPath(target, blob.digest),
      subject,
      options,
      scopes: [pullScope(repository)],
      accept: from === 0 ? [200] : [200, 206, 416],
      // Compressed on the way, the bytes would no longer be those of the digest.
      headers: { 'accept-encoding': 'identity', range: from === 0 ? undefined : `bytes=${from}-` },
      lane: 'read',
      ...(target.lend === true ? { lend: true } : {}),
    });
    return response;
  };
  const response = await ask(offset);
  if (response.status === 200) return { body: checked(response, { blob, from: 0, subject }), skip: offset };
  if (response.status === 206 && rangeStart(response, blob.size) === offset)
    return { body: checked(response, { blob, from: offset, subject }), skip: 0 };
  // No answer, or one to another question than ours: take the whole.
  void response.discard();
  return { body: checked(await ask(0), { blob, from: 0, subject }), skip: offset };
}

function rangeStart(response: HttpResponse, size: number): number | undefined {
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(response.values('content-range')[0] ?? '');
  if (match === null || (match[3] !== '*' && Number(match[3]) !== size)) return undefined;
  return Number(match[1]);
}

function checked(
  response: HttpResponse,
  expected: { readonly blob: Descriptor; readonly from: number; readonly subject: string },
): AsyncIterable<Uint8Array> {
  const { blob, from, subject } = expected;
  const refuse = (problem: string): Error => {
    void response.discard();
    return ociError('REGISTRY_ANSWER_INVALID', `${subject}: ${problem}`, {
      hint: 'check whether a proxy answers in place of the registry',
    });
  };
  const encoding = response.values('content-encoding')[0];
  if (encoding !== undefined && encoding !== 'identity')
    throw refuse(`the answer has the content encoding ${JSON.stringify(encoding)}`);
  const announced = response.values('content-length')[0];
  if (announced !== undefined && Number(announced) > blob.size - from) {
    throw refuse(`${announced} bytes were announced instead of ${blob.size - from}`);
  }
  // A whole answer that announces less is another file, not a broken transfer.
  if (announced !== undefined && response.status === 200 && Number(announced) !== blob.size) {
    throw refuse(`${announced} bytes were announced instead of ${blob.size}`);
  }
  return response.body;
}

async function* stream(
  target: Target,
  blob: Descriptor,
  start: { readonly offset: number; readonly first: Opened },
): AsyncGenerator<Uint8Array, void> {
  const { caller, options, host } = target;
  let position = start.offset;
  let opened: Opened | undefined = start.first;
  let attempt = caller.begin();
  let mark = position;
  for (;;) {
    try {
      opened ??= await request(target, blob, position);
      let skip = opened.skip;
      for await (const part of opened.body) {
        const rest = part.subarray(skip);
        skip -= part.length - rest.length;
        if (rest.length === 0) continue;
        if (position + rest.length > blob.size) throw tooLong(target, blob);
        position += rest.length;
        yield rest;
      }
      if (position === blob.size) return;
      throw new HttpFailure('reset', `${host.name}: the transfer ended at ${position} of ${blob.size} bytes`);
    } catch (error) {
      opened = undefined;
      options.signal.throwIfAborted();
      if (!isHttpFailure(error)) throw error;
      const failure = failureError(error, `${target.subject}, blob ${blob.digest}`);
      if (!error.transient) throw failure;
      if (position - mark >= PROGRESS) attempt = caller.begin();
      mark = position;
      const reason = reasonOf(error);
      options.emit({ type: 'blob.retry', digest: blob.digest, reason, offset: position });
      await caller.pause(attempt, failure, {
        askedMs: undefined,
        transfer: options,
        registry: host.name,
        reason,
      });
    }
  }
}

function tooLong(target: Target, blob: Descriptor): Error {
  return ociError(
    'REGISTRY_ANSWER_INVALID',
    `${target.subject}, blob ${blob.digest}: more than its ${blob.size} bytes were sent`,
    {
      hint: 'check whether a proxy answers in place of the registry',
    },
  );
}
