import type { IncomingHttpHeaders } from 'node:http';
import type { Digest } from '../../types.ts';
import { Refused } from './refused.ts';

/** Entity tags are digests in quotes, so that equal tags mean equal bytes. */
export function entityTag(digest: Digest): string {
  return `"${digest}"`;
}

/**
 * `If-Match` and `If-None-Match` (RFC 9110, 13.1) against what is there now.
 *
 * @returns whether a reader has it already: 304
 * @throws Refused 412 for a writer, and for a reader who wants something else
 */
export function isUnchanged(
  method: string,
  headers: IncomingHttpHeaders,
  current: Digest | undefined,
): boolean {
  if (headers['if-match'] !== undefined && !matches(headers['if-match'], current)) {
    throw new Refused(412, 'PRECONDITION_FAILED', 'this is not what is here now', etag(current));
  }
  if (headers['if-none-match'] === undefined || !matches(headers['if-none-match'], current)) return false;
  if (method === 'GET' || method === 'HEAD') return true;
  throw new Refused(412, 'PRECONDITION_FAILED', 'something is here already', etag(current));
}

function etag(current: Digest | undefined): Record<string, string> {
  return current === undefined ? {} : { etag: entityTag(current) };
}

function matches(header: string, current: Digest | undefined): boolean {
  if (current === undefined) return false;
  return header
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === '*' || tag === entityTag(current));
}
