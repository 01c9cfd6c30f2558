import type { HttpResponse } from '../../../kernel/http/index.ts';
import { isSkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import { digestParts, isDigest, isRepositoryPath, quoted } from '../../names/index.ts';
import type { Descriptor, Digest } from '../../types.ts';
import { failureError } from './answer.ts';
import type { Answer } from './caller.ts';
import { pullScope, pushScope, type Target } from './target.ts';

/** Milliseconds for the courtesy of giving up an upload by name. */
const ABANDON_MS = 5_000;

/** An upload that the registry has opened; each of its answers may move it. */
export interface UploadSession {
  readonly location: URL;
  /** `OCI-Chunk-Min-Length`, in bytes; 0 where nothing was said. */
  readonly minChunk: number;
}

/** A session, and how many bytes from the start the registry has. */
export interface UploadPosition {
  readonly session: UploadSession;
  readonly offset: number;
}

/** distribution-spec, "Pushing blobs": POST, whatever way the bytes go then. */
export async function begin(target: Target, digest: Digest): Promise<UploadSession> {
  const { host, repository, subject, options, caller } = target;
  const { algorithm } = digestParts(digest);
  // Registries hash while they take; one that reads this need not read the blob again.
  const query = algorithm === 'sha256' ? '' : `?digest-algorithm=${algorithm}`;
  const answer = await caller.call({
    method: 'POST',
    host,
    repository,
    path: `${repository}/blobs/uploads/${query}`,
    subject,
    options,
    scopes: [pushScope(repository)],
    accept: [202],
    lane: 'control',
  });
  await answer.response.discard();
  return sessionOf(target, answer);
}

/**
 * distribution-spec, "Mounting a blob from another repository". A mount that is refused in any way is an upload:
 * registries refuse with 400, 401, 403, 404 or 405, each in a way of its own.
 */
export async function mount(
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

/** The next address of the upload: relative or absolute, with or without a query, here or elsewhere. */
export function sessionOf(target: Target, answer: Answer, before?: UploadSession): UploadSession {
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

/** Where the closing PUT goes: the digest is appended as text, so that the registry's own query comes back unchanged. */
export function closing(session: UploadSession, digest: Digest): URL {
  const url = new URL(session.location);
  url.search = `${url.search === '' ? '?' : `${url.search}&`}digest=${encodeURIComponent(digest)}`;
  return url;
}

/** How far the registry is with an upload; undefined where it does not say, or knows nothing of it any more. */
export async function positionOf(
  target: Target,
  blob: Descriptor,
  session: UploadSession,
): Promise<UploadPosition | undefined> {
  const { host, repository, options, caller } = target;
  try {
    const answer = await caller.call({
      host,
      repository,
      path: session.location,
      subject: `${target.subject}, blob ${blob.digest}`,
      options,
      scopes: [pushScope(repository)],
      accept: [200, 202, 204],
      lane: 'control',
    });
    await answer.response.discard();
    const end = rangeEnd(answer.response);
    // "0-0" is also what an empty session says; that one byte is worth no guess.
    const offset = end === undefined || (end === 1 && blob.size > 1) || end > blob.size ? 0 : end;
    return { session: sessionOf(target, answer, session), offset };
  } catch (error) {
    options.signal.throwIfAborted();
    if (isSkycapError(error)) return undefined;
    throw error;
  }
}

/** `Range: 0-<last byte>`, in bytes from the start. */
export function rangeEnd(response: HttpResponse): number | undefined {
  const match = /^(?:bytes[= ])?0-(\d{1,15})$/.exec(response.values('range')[0] ?? '');
  return match === null ? undefined : Number(match[1]) + 1;
}

/** Frees what the registry keeps of an upload that will not be finished; whether it does is its own matter. */
export async function abandon(target: Target, session: UploadSession): Promise<void> {
  const { host, repository, options, caller } = target;
  const origin = (await host.origin(options.signal)).origin;
  if (session.location.origin !== origin) return;
  try {
    const { response } = await caller.call({
      method: 'DELETE',
      host,
      repository,
      path: session.location,
      subject: target.subject,
      options: { emit: () => {}, signal: AbortSignal.any([options.signal, AbortSignal.timeout(ABANDON_MS)]) },
      scopes: [pushScope(repository)],
      accept: [200, 202, 204],
      replayable: false,
      lane: 'control',
    });
    await response.discard();
  } catch {
    // The error that ended the upload is the one to tell.
  }
}

/** A registry that stored something else than what was sent is found out at once, not by whoever pulls. */
export async function confirm(target: Target, blob: Descriptor, response: HttpResponse): Promise<void> {
  await response.discard();
  const said = response.values('docker-content-digest')[0];
  if (!isDigest(said) || said === blob.digest) return;
  if (digestParts(said).algorithm !== digestParts(blob.digest).algorithm) return;
  throw ociError(
    'REGISTRY_ANSWER_INVALID',
    `${target.subject}: ${target.host.name} stored ${said} instead of ${blob.digest}`,
    {
      hint: 'ask who runs the registry',
    },
  );
}
