import { isDigest, isRepositoryPath, isTag } from '../../names/index.ts';
import type { Digest } from '../../types.ts';

/** What a request line asks for; nothing in it is unchecked. */
export type Route =
  | { readonly kind: 'root' }
  | { readonly kind: 'catalog' }
  | { readonly kind: 'token' }
  | {
      readonly kind: 'manifest';
      readonly repository: string;
      readonly tag?: string;
      readonly digest?: Digest;
    }
  | { readonly kind: 'blob'; readonly repository: string; readonly digest: Digest }
  | { readonly kind: 'tags'; readonly repository: string }
  | { readonly kind: 'referrers'; readonly repository: string; readonly digest: Digest }
  | { readonly kind: 'uploads'; readonly repository: string }
  | { readonly kind: 'upload'; readonly repository: string; readonly id: string }
  | { readonly kind: 'invalid'; readonly code: 'NAME_INVALID' | 'DIGEST_INVALID' | 'TAG_INVALID' }
  | { readonly kind: 'unknown' };

const UPLOAD_ID = /^[0-9a-f-]{36}$/;

export function isUploadId(text: string): boolean {
  return UPLOAD_ID.test(text);
}

/** @param path of the request as it came, without query; never normalised, so `..` and its kin match nothing */
export function parseRoute(path: string): Route {
  const decoded = decode(path);
  if (decoded === '/v2/' || decoded === '/v2') return { kind: 'root' };
  if (decoded === '/token') return { kind: 'token' };
  if (decoded === '/v2/_catalog') return { kind: 'catalog' };
  const match =
    /^\/v2\/(.+)\/(?:(manifests|blobs|referrers)\/([^/]+)|(tags)\/list|blobs\/uploads\/([^/]*))$/s.exec(
      decoded,
    );
  if (match === null) return { kind: 'unknown' };
  const [, repository = '', resource, name = '', tags, id] = match;
  if (!isRepositoryPath(repository)) return { kind: 'invalid', code: 'NAME_INVALID' };
  if (tags !== undefined) return { kind: 'tags', repository };
  if (id === '' || (resource === 'blobs' && name === 'uploads')) return { kind: 'uploads', repository };
  if (id !== undefined) return isUploadId(id) ? { kind: 'upload', repository, id } : { kind: 'unknown' };
  if (resource === 'manifests' && isTag(name)) return { kind: 'manifest', repository, tag: name };
  if (!isDigest(name))
    return {
      kind: 'invalid',
      code: resource === 'manifests' && !name.includes(':') ? 'TAG_INVALID' : 'DIGEST_INVALID',
    };
  if (resource === 'manifests') return { kind: 'manifest', repository, digest: name };
  return { kind: resource === 'blobs' ? 'blob' : 'referrers', repository, digest: name };
}

/** Empty where it is no text at all, which is no address either. */
function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return '';
  }
}

export type ByteRange = { readonly start: number; readonly end: number };

/**
 * One range of `Range` (RFC 9110, 14.2), end inclusive. Undefined: send all. `unsatisfiable`: 416, also for an end
 * before the start, as the distribution conformance suite has it.
 */
export function parseRange(
  header: string | undefined,
  size: number,
): ByteRange | 'unsatisfiable' | undefined {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(`${header}`);
  if (match === null || (match[1] === '' && match[2] === '')) return undefined;
  if (match[1] === '') {
    const length = Math.min(Number(match[2]), size);
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size - 1 };
  }
  const start = Number(match[1]);
  const end = match[2] === '' ? size - 1 : Math.min(Number(match[2]), size - 1);
  // A start behind the last byte is behind the end as well.
  return end < start ? 'unsatisfiable' : { start, end };
}
