import { ociError } from '../../errors.ts';
import { type DigestAlgorithm, digestOf, digestParts, isDigest, quoted } from '../../names/index.ts';
import type { ManifestBytes } from '../../port.ts';
import type { Descriptor } from '../../types.ts';
import { ACCEPT, IMAGE_TYPES, INDEX_TYPES, LARGEST_MANIFEST, manifestMediaType } from './manifest.ts';
import { manifestPath, pullScope, pushScope, type Target } from './target.ts';

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
    collect: LARGEST_MANIFEST,
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

export async function putManifest(target: Target, manifest: ManifestBytes): Promise<void> {
  const { host, repository, reference, subject, options, caller } = target;
  const { descriptor, bytes } = manifest;
  const algorithm = digestParts(descriptor.digest).algorithm;
  if (
    digestOf(bytes, algorithm) !== descriptor.digest ||
    (reference.digest !== undefined && reference.digest !== descriptor.digest)
  ) {
    throw ociError('REGISTRY_DIGEST_MISMATCH', `${subject}: the manifest to push does not have its digest`, {
      hint: 'push it again from its source',
    });
  }
  const { response } = await caller.call({
    method: 'PUT',
    host,
    repository,
    path: `${repository}/manifests/${reference.tag ?? descriptor.digest}`,
    subject,
    options,
    scopes: [pushScope(repository)],
    accept: [200, 201, 202, 204],
    headers: { 'content-type': descriptor.mediaType },
    body: bytes,
    lane: 'control',
  });
  await response.discard();
  const said = response.values('docker-content-digest')[0];
  if (isDigest(said) && digestParts(said).algorithm === algorithm && said !== descriptor.digest) {
    throw ociError(
      'REGISTRY_ANSWER_INVALID',
      `${subject}: ${host.name} stored ${said} instead of ${descriptor.digest}`,
      { hint: 'the registry changes what it is given; use another' },
    );
  }
}

export async function deleteManifest(target: Target): Promise<void> {
  const { host, repository, subject, options, caller } = target;
  const { response } = await caller.call({
    method: 'DELETE',
    host,
    repository,
    path: manifestPath(target),
    subject,
    options,
    scopes: [`repository:${repository}:pull,delete`],
    accept: [200, 202, 204, 400, 405],
    lane: 'control',
  });
  const text = await response.text(64 * 1024).catch(() => '');
  if (response.status < 300) return;
  throw ociError(
    'REGISTRY_UNSUPPORTED',
    `${subject}: ${host.name} does not delete this (status ${response.status}${text === '' ? '' : `, ${quoted(text)}`})`,
    {
      hint: 'many registries delete by digest only, or only when deletion is switched on',
    },
  );
}
