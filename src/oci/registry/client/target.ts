import { ociError } from '../../errors.ts';
import { formatReference, isDigest, isRepositoryPath, isTag, quoted } from '../../names/index.ts';
import type { TransferOptions } from '../../port.ts';
import type { Digest, Reference } from '../../types.ts';
import type { Caller } from './caller.ts';
import type { Host } from './host.ts';

/** One repository on one host, ready to be asked. */
export interface Target {
  readonly host: Host;
  readonly repository: string;
  readonly reference: Reference;
  /** For messages: as the user knows it, whatever address is asked. */
  readonly subject: string;
  readonly caller: Caller;
  readonly options: TransferOptions;
  /** As in `ReadOptions`. */
  readonly lend?: boolean;
}

export function pullScope(repository: string): string {
  return `repository:${repository}:pull`;
}

export function pushScope(repository: string): string {
  return `repository:${repository}:pull,push`;
}

/** References are branded by their parser only in spirit; nothing unchecked may become a path (CVE-2024-3727). */
export function checkReference(reference: Reference): void {
  const { repository, tag, digest } = reference;
  const sound =
    isRepositoryPath(repository) &&
    (tag === undefined || isTag(tag)) &&
    (digest === undefined || isDigest(digest));
  if (!sound) {
    throw ociError('REFERENCE_INVALID', `${quoted(formatReference(reference))} is not an image reference`, {
      hint: 'use parseReference',
    });
  }
}

/** The digest where there is one, else the tag, else `latest`. */
export function manifestPath(target: Target): string {
  const { digest, tag } = target.reference;
  return `${target.repository}/manifests/${digest ?? tag ?? 'latest'}`;
}

export function blobPath(target: Target, digest: Digest): string {
  if (!isDigest(digest)) {
    throw ociError('DIGEST_INVALID', `not a digest: ${quoted(String(digest))}`, { hint: 'use parseDigest' });
  }
  return `${target.repository}/blobs/${digest}`;
}
