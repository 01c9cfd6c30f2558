import { isSkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import { type JsonObject, parseStrictJson } from '../../image/json.ts';
import {
  type DigestAlgorithm,
  digestOf,
  digestParts,
  isDigest,
  LARGEST_DOCUMENT,
} from '../../names/index.ts';
import type { ManifestBytes } from '../../port.ts';
import type { Descriptor, Digest } from '../../types.ts';
import { remove } from './blobs.ts';
import { ACCEPT, IMAGE_TYPES, INDEX_TYPES, manifestMediaType } from './manifest.ts';
import { offersReferrers, subjectOf } from './referrers.ts';
import { addReferrer, referrerOf, removeReferrer } from './referrers-tag.ts';
import { manifestPath, pullScope, pushScope, type Target } from './target.ts';
import { confirm } from './upload-session.ts';

const CONFUSED = 'the bytes are not used; ask who runs the registry or the mirror';

export async function getManifest(target: Target): Promise<ManifestBytes> {
  const { host, repository, reference, subject, options, caller } = target;
  const { response, bytes } = await caller.call({
    host,
    repository,
    path: manifestPath(target),
    subject,
    options,
    scopes: [pullScope(repository)],
    accept: [200],
    collect: LARGEST_DOCUMENT,
    headers: { accept: ACCEPT, 'accept-encoding': 'identity' },
    lane: 'control',
  });
  const hinted = response.values('docker-content-digest')[0];
  const wanted = reference.digest ?? (isDigest(hinted) ? hinted : undefined);
  // The digest is that of the bytes; what the registry says about it may only contradict, never vouch.
  const algorithm: DigestAlgorithm = wanted === undefined ? 'sha256' : digestParts(wanted).algorithm;
  const digest = digestOf(bytes, algorithm);
  if (wanted !== undefined && digest !== wanted) {
    throw ociError(
      'REGISTRY_DIGEST_MISMATCH',
      `${subject}: ${host.name} sent a manifest with digest ${digest} instead of ${wanted}`,
      {
        hint: CONFUSED,
      },
    );
  }
  const mediaType = manifestMediaType(bytes, response.values('content-type')[0], subject);
  return { descriptor: { mediaType, digest, size: bytes.length }, bytes };
}

/** Undefined where there is none. What the headers leave open is asked for with GET. */
export async function headManifest(target: Target): Promise<Descriptor | undefined> {
  const { host, repository, reference, subject, options, caller } = target;
  const { response } = await caller.call({
    method: 'HEAD',
    host,
    repository,
    path: manifestPath(target),
    subject,
    options,
    scopes: [pullScope(repository)],
    accept: [200, 404, 405, 501],
    headers: { accept: ACCEPT },
    lane: 'control',
  });
  await response.discard();
  if (response.status === 404) return undefined;
  const digest = response.values('docker-content-digest')[0];
  const length = response.values('content-length')[0];
  const mediaType = response.values('content-type')[0]?.split(';')[0]?.trim();
  const known = [...INDEX_TYPES, ...IMAGE_TYPES].some((type) => type === mediaType);
  if (
    response.status !== 200 ||
    !isDigest(digest) ||
    length === undefined ||
    !/^\d+$/.test(length) ||
    !known ||
    mediaType === undefined
  ) {
    return (await getManifest(target)).descriptor;
  }
  if (reference.digest !== undefined && digest !== reference.digest) {
    // Another algorithm's digest of the same bytes, or a lie: the bytes decide.
    return (await getManifest(target)).descriptor;
  }
  return { mediaType, digest, size: Number(length) };
}

export interface PutOptions {
  /** A further name for what is there already: what refers to what stays as it is. */
  readonly isRetag?: boolean;
}

/**
 * Byte for byte. Where it has a subject and the registry keeps no list of referrers, the list at the fallback tag is
 * kept (distribution-spec, "Pushing Manifests with Subject").
 */
export async function putManifest(
  target: Target,
  manifest: ManifestBytes,
  { isRetag = false }: PutOptions = {},
): Promise<void> {
  const { reference, subject: name } = target;
  const { descriptor, bytes } = manifest;
  const algorithm = digestParts(descriptor.digest).algorithm;
  if (
    digestOf(bytes, algorithm) !== descriptor.digest ||
    (reference.digest !== undefined && reference.digest !== descriptor.digest)
  ) {
    throw ociError('REGISTRY_DIGEST_MISMATCH', `${name}: the manifest to push does not have its digest`, {
      hint: 'push it again from its source',
    });
  }
  manifestMediaType(bytes, descriptor.mediaType, name);
  const body = parseStrictJson(bytes, name) as JsonObject;
  const subject = subjectOf(body, name);
  const said = await putUnderNames(target, manifest);
  if (subject === undefined || isRetag) return;
  if (said === subject && (await offersReferrers(target, subject))) return;
  await addReferrer(target, subject, referrerOf(descriptor, body));
}

/** Gives back the `OCI-Subject` that was answered. */
async function putUnderNames(target: Target, manifest: ManifestBytes): Promise<string | undefined> {
  const { tag } = target.reference;
  const { digest } = manifest.descriptor;
  if (tag === undefined) return (await put(target, manifest, { path: digest, accept: [] })).subject;
  if (digestParts(digest).algorithm !== 'sha256') {
    // By its tag alone a registry would know it by sha256; `tag=` is younger than most registries.
    const path = `${digest}?${new URLSearchParams({ tag })}`;
    const answer = await put(target, manifest, { path, accept: [400, 404, 405, 415, 422] });
    if (answer.tags.includes(tag)) return answer.subject;
  }
  return (await put(target, manifest, { path: tag, accept: [] })).subject;
}

async function put(
  target: Target,
  { descriptor, bytes }: ManifestBytes,
  how: { readonly path: string; readonly accept: readonly number[] },
): Promise<{ readonly subject: string | undefined; readonly tags: readonly string[] }> {
  const { host, repository, subject, options, caller } = target;
  const { response } = await caller.call({
    method: 'PUT',
    host,
    repository,
    path: `${repository}/manifests/${how.path}`,
    subject,
    options,
    scopes: [pushScope(repository)],
    accept: [200, 201, 202, 204, ...how.accept],
    headers: { 'content-type': descriptor.mediaType },
    body: bytes,
    lane: 'control',
  });
  await confirm(target, descriptor, response);
  const tags = response.values('oci-tag').flatMap((line) => line.split(',').map((name) => name.trim()));
  return { subject: response.values('oci-subject')[0], tags: response.status < 300 ? tags : [] };
}

/**
 * By digest the manifest goes, by tag the tag, where the registry deletes tags at all. What referred to a subject is
 * taken off the list at the fallback tag.
 */
export async function deleteManifest(target: Target): Promise<void> {
  const { digest } = target.reference;
  const subject = digest === undefined ? undefined : await subjectOfStored(target);
  await remove(target, { path: manifestPath(target), subject: target.subject });
  if (digest === undefined || subject === undefined || (await offersReferrers(target, subject))) return;
  await removeReferrer(target, subject, digest);
}

/** What cannot be read any more can still be deleted. */
async function subjectOfStored(target: Target): Promise<Digest | undefined> {
  try {
    const { bytes } = await getManifest(target);
    return subjectOf(parseStrictJson(bytes, target.subject) as JsonObject, target.subject);
  } catch (error) {
    const isUnreadable = [
      'REGISTRY_NOT_FOUND',
      'REGISTRY_DIGEST_MISMATCH',
      'REGISTRY_ANSWER_INVALID',
      'OCI_MANIFEST_INVALID',
    ];
    if (isUnreadable.some((code) => isSkycapError(error, code))) return undefined;
    throw error;
  }
}
