import { ociError } from '../errors.ts';
import { isDigest, parseReference, quoted, withDefaultTag } from '../names/index.ts';
import type { Reference } from '../types.ts';

/** What `SRC` and `DST` of a copy may be, in the spelling of containers-transports(5); `store:` is our own store. */
export type Transport =
  | { readonly kind: 'docker'; readonly reference: Reference }
  | { readonly kind: 'store'; readonly reference: Reference }
  /** A folder with an OCI image layout; `ref` is `org.opencontainers.image.ref.name`, `at` counts from 0. */
  | {
      readonly kind: 'oci' | 'oci-archive';
      readonly path: string;
      readonly ref?: string;
      readonly at?: number;
    }
  /** A tar as `docker save` makes it. */
  | {
      readonly kind: 'docker-archive';
      readonly path: string;
      readonly reference?: Reference;
      readonly at?: number;
    }
  /** An image of the Docker daemon, by name or by id. */
  | { readonly kind: 'docker-daemon'; readonly reference: Reference }
  | { readonly kind: 'docker-daemon'; readonly id: string };

/** Transports of other tools, so that nobody takes one for the name of an image. */
const FOREIGN = ['containers-storage', 'dir', 'ostree', 'sif', 'tarball'];
const FORMS =
  'docker://NAME, store:NAME, oci:FOLDER[:REF], oci-archive:FILE[:REF], docker-archive:FILE[:NAME] or docker-daemon:NAME';

/**
 * Reads a place of images. Without a transport it is an image's name, in the place that `plain` says.
 *
 * @throws OCI_TRANSPORT_INVALID, REFERENCE_INVALID
 */
export function parseTransport(text: string, plain: 'docker' | 'store'): Transport {
  if (text.startsWith('docker://'))
    return { kind: 'docker', reference: named(text.slice('docker://'.length)) };
  const colon = text.indexOf(':');
  const kind = colon === -1 ? '' : text.slice(0, colon);
  const rest = text.slice(colon + 1);
  switch (kind) {
    case 'store':
      return { kind, reference: named(needed(text, rest)) };
    case 'oci':
    case 'oci-archive':
      return { kind, ...layoutPlace(text, rest) };
    case 'docker-archive':
      return { kind, ...archivePlace(text, rest) };
    case 'docker-daemon':
      return daemonPlace(needed(text, rest));
    case 'http':
    case 'https':
    case 'docker':
      throw invalid(
        text,
        `${kind}: is no transport of images`,
        `for a registry write docker://, or just the name`,
      );
    default:
  }
  if (FOREIGN.includes(kind)) {
    const hint = `use ${FORMS}; an image of that name is docker://${text}`;
    throw invalid(text, `the transport ${kind} is not supported`, hint);
  }
  return { kind: plain, reference: named(text) };
}

function named(text: string): Reference {
  return withDefaultTag(parseReference(text));
}

function needed(text: string, rest: string): string {
  if (rest !== '') return rest;
  throw invalid(text, 'nothing follows the colon', `write ${FORMS}`);
}

function layoutPlace(text: string, rest: string): { path: string; ref?: string; at?: number } {
  const { path, suffix } = splitPath(text, rest);
  if (suffix === undefined) return { path };
  if (suffix.startsWith('@')) return { path, at: position(text, suffix) };
  // image-spec, annotations.md, "org.opencontainers.image.ref.name".
  if (!/^[A-Za-z0-9](?:[-._:@/+]?[A-Za-z0-9]|--)*$/.test(suffix)) {
    throw invalid(
      text,
      `${quoted(suffix)} is not the name of an image in a layout`,
      'use letters, digits and -._:@/+',
    );
  }
  return { path, ref: suffix };
}

function archivePlace(text: string, rest: string): { path: string; reference?: Reference; at?: number } {
  const { path, suffix } = splitPath(text, rest);
  if (suffix === undefined) return { path };
  if (suffix.startsWith('@')) return { path, at: position(text, suffix) };
  const reference = named(suffix);
  if (reference.digest === undefined) return { path, reference };
  throw invalid(text, 'an image of an archive has no digest to be named by', 'name it by its tag, or as @0');
}

function splitPath(
  text: string,
  rest: string,
): { readonly path: string; readonly suffix: string | undefined } {
  const colon = rest.indexOf(':');
  const path = colon === -1 ? rest : rest.slice(0, colon);
  if (path === '' || path.includes('\0')) throw invalid(text, 'the path is empty', `write ${FORMS}`);
  const suffix = colon === -1 ? undefined : rest.slice(colon + 1);
  if (suffix === '')
    throw invalid(text, 'nothing follows the last colon', 'leave the colon out, or name the image');
  return { path, suffix };
}

function position(text: string, suffix: string): number {
  if (/^@[0-9]{1,5}$/.test(suffix)) return Number(suffix.slice(1));
  throw invalid(text, `${quoted(suffix)} is no position`, 'write @0 for the first image');
}

function daemonPlace(rest: string): Transport {
  if (isDigest(rest)) return { kind: 'docker-daemon', id: rest };
  return { kind: 'docker-daemon', reference: named(rest) };
}

function invalid(text: string, why: string, hint: string): Error {
  return ociError('OCI_TRANSPORT_INVALID', `${quoted(text)}: ${why}`, { hint });
}
