import { ociError } from '../../errors.ts';
import { isObject, type JsonObject, parseStrictJson } from '../../image/json.ts';
import { quoted } from '../../names/index.ts';

export const INDEX_TYPES = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
] as const;
export const IMAGE_TYPES = [
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
] as const;
export const ACCEPT = [...INDEX_TYPES, ...IMAGE_TYPES].join(', ');

const isOneOf = (types: readonly string[], value: string | undefined): boolean =>
  value !== undefined && types.includes(value);

/**
 * The media type that body and header agree on. A body that can be read as manifest and as index is refused
 * (CVE-2021-41190), as is one whose own `mediaType` is not what it was sent as.
 *
 * @param where what was asked for, for messages
 * @throws OCI_MANIFEST_INVALID, REGISTRY_ANSWER_INVALID
 */
export function manifestMediaType(bytes: Uint8Array, contentType: string | undefined, where: string): string {
  const sentAs = contentType?.split(';')[0]?.trim().toLowerCase() || undefined;
  const body = parseObject(bytes, sentAs, where);
  const named = body.mediaType;
  if (named !== undefined && typeof named !== 'string') throw malformed(where, 'its mediaType is no string');
  const mediaType = named ?? sentAs;
  if (
    mediaType?.startsWith('application/vnd.docker.distribution.manifest.v1') === true ||
    body.schemaVersion === 1
  ) {
    throw malformed(where, 'it has the retired schema 1', 'push the image again with a current tool');
  }
  if (body.schemaVersion !== 2) throw malformed(where, 'its schemaVersion is not 2');
  if (sentAs !== undefined && named !== undefined && sentAs !== named) {
    throw malformed(where, `it calls itself ${quoted(named)} but was sent as ${quoted(sentAs)}`);
  }
  if ('manifests' in body && ('layers' in body || 'config' in body || 'fsLayers' in body)) {
    throw malformed(where, 'it is a manifest and an index at once');
  }
  return checkShape(body, mediaType, where);
}

function checkShape(body: JsonObject, mediaType: string | undefined, where: string): string {
  if (isOneOf(INDEX_TYPES, mediaType)) {
    if (!Array.isArray(body.manifests)) throw malformed(where, 'an index without a list of manifests');
    return mediaType as string;
  }
  if (isOneOf(IMAGE_TYPES, mediaType)) {
    // Bundles carry `"layers": null`.
    const layers = body.layers;
    if (typeof body.config !== 'object' || body.config === null)
      throw malformed(where, 'a manifest without config');
    if (layers !== null && layers !== undefined && !Array.isArray(layers))
      throw malformed(where, 'its layers are no list');
    return mediaType as string;
  }
  throw malformed(where, `${quoted(mediaType ?? 'nothing')} is no media type of a manifest or index`);
}

function parseObject(bytes: Uint8Array, sentAs: string | undefined, where: string): JsonObject {
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    const html =
      sentAs === 'text/html' ||
      Buffer.from(bytes.subarray(0, 200)).toString('latin1').trimStart().startsWith('<');
    throw ociError(
      'REGISTRY_ANSWER_INVALID',
      `${where}: the answer is ${html ? 'a web page' : 'not JSON'} instead of a manifest`,
      {
        cause,
        hint: html
          ? 'check the registry address, and whether a proxy or login page answers in its place'
          : 'try again, or ask who runs the registry',
      },
    );
  }
  const value = parseStrictJson(bytes, where);
  if (!isObject(value)) throw malformed(where, 'it is no JSON object');
  return value;
}

function malformed(where: string, problem: string, hint = 'ask who pushed the image'): Error {
  return ociError('OCI_MANIFEST_INVALID', `${where}: the manifest is refused: ${problem}`, { hint });
}
