import type { ServerResponse } from 'node:http';
import type { Digest } from '../../types.ts';
import { entityTag, isUnchanged } from './conditions.ts';
import type { Content, ManifestFacts } from './content.ts';
import { repositoriesOf } from './names.ts';
import { type Exchange, page, Refused, reply, replyJson } from './reply.ts';
import { parseRange, type Route } from './route.ts';

const MOST_NAMES = 10_000;
/** Characters; clients read manifests and indexes of 4 MiB at least. */
const LARGEST_LIST = 3 * 1024 * 1024;

type Of<K extends Route['kind']> = Extract<Route, { readonly kind: K }>;

export async function getManifest(
  exchange: Exchange,
  content: Content,
  route: Of<'manifest'>,
): Promise<void> {
  const found = await content.resolve(route.repository, route);
  if (found === undefined) throw new Refused(404, 'MANIFEST_UNKNOWN', 'no such manifest');
  const { descriptor } = found;
  const headers = { ...tagged(descriptor.digest), 'content-type': descriptor.mediaType };
  if (isUnchanged(exchange.method, exchange.request.headers, descriptor.digest))
    return reply(exchange, 304, tagged(descriptor.digest));
  const bytes = exchange.method === 'HEAD' ? undefined : await content.store.readSmall(descriptor.digest);
  return reply(exchange, 200, { ...headers, 'content-length': descriptor.size }, bytes);
}

function tagged(digest: Digest): Record<string, string> {
  return { 'docker-content-digest': digest, etag: entityTag(digest) };
}

export async function getBlob(exchange: Exchange, content: Content, route: Of<'blob'>): Promise<void> {
  const { digest, repository } = route;
  const size = (await content.hasBlob(repository, digest)) ? await content.store.blobSize(digest) : undefined;
  if (size === undefined) throw new Refused(404, 'BLOB_UNKNOWN', 'no such blob');
  const headers = { ...tagged(digest), 'content-type': 'application/octet-stream', 'accept-ranges': 'bytes' };
  if (isUnchanged(exchange.method, exchange.request.headers, digest))
    return reply(exchange, 304, tagged(digest));
  const conditional = exchange.request.headers['if-range'];
  const range =
    conditional === undefined || conditional === `"${digest}"`
      ? parseRange(exchange.request.headers.range, size)
      : undefined;
  if (range === 'unsatisfiable')
    throw new Refused(416, 'RANGE_INVALID', 'no such range', { 'content-range': `bytes */${size}` });
  const { start, end } = range ?? { start: 0, end: size - 1 };
  exchange.response.writeHead(range === undefined ? 200 : 206, {
    ...headers,
    'content-length': end - start + 1,
    ...(range === undefined ? {} : { 'content-range': `bytes ${start}-${end}/${size}` }),
  });
  if (exchange.method === 'HEAD' || size === 0) {
    exchange.response.end();
    return;
  }
  await send(exchange, content.store.readBlob(digest, start), end - start + 1);
}

async function send(exchange: Exchange, source: AsyncIterable<Uint8Array>, length: number): Promise<void> {
  const { response } = exchange;
  let left = length;
  for await (const part of source) {
    if (response.destroyed) return;
    const piece = part.length > left ? part.subarray(0, left) : part;
    left -= piece.length;
    if (!response.write(piece)) await drained(response);
    // Reading on to the end of the source lets the store check the bytes; a part of a blob is checked by its reader.
    if (left === 0 && piece.length < part.length) break;
  }
  if (left > 0) response.destroy();
  else response.end();
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      response.off('drain', finish);
      response.off('close', finish);
      resolve();
    };
    response.once('drain', finish);
    response.once('close', finish);
    if (response.destroyed) finish();
  });
}

export async function listTags(exchange: Exchange, content: Content, route: Of<'tags'>): Promise<void> {
  const entries = await content.entries(route.repository);
  if (entries.length === 0) throw new Refused(404, 'NAME_UNKNOWN', 'no such repository');
  const tags = [
    ...new Set(entries.flatMap((entry) => (entry.reference.tag === undefined ? [] : [entry.reference.tag]))),
  ].toSorted();
  const path = `/v2/${route.repository}/tags/list`;
  const { items, headers } = page(exchange, tags, { path, key: itself, fits: () => MOST_NAMES });
  return replyJson(exchange, { name: route.repository, tags: items }, headers);
}

export async function listRepositories(exchange: Exchange, content: Content): Promise<void> {
  const repositories = repositoriesOf(await content.store.list());
  const { items, headers } = page(exchange, repositories, {
    path: '/v2/_catalog',
    key: itself,
    fits: () => MOST_NAMES,
  });
  return replyJson(exchange, { repositories: items }, headers);
}

const itself = (name: string): string => name;

/** distribution-spec, "Listing Referrers". */
export async function listReferrers(
  exchange: Exchange,
  content: Content,
  route: Of<'referrers'>,
): Promise<void> {
  const wanted = exchange.query.get('artifactType');
  const found = new Map<Digest, ManifestFacts>();
  for (const entry of await content.entries(route.repository)) {
    const facts = await content.facts(entry.descriptor);
    if (facts?.subject === route.digest) found.set(facts.descriptor.digest, facts);
  }
  const referrers = [...found.values()]
    .filter((facts) => wanted === null || facts.artifactType === wanted)
    .map(({ descriptor, artifactType, annotations }) => ({
      ...descriptor,
      ...(artifactType === undefined ? {} : { artifactType }),
      ...(annotations === undefined ? {} : { annotations }),
    }))
    .toSorted((left, right) => (left.digest < right.digest ? -1 : 1));
  const { items, headers } = page(exchange, referrers, {
    path: `/v2/${route.repository}/referrers/${route.digest}`,
    key: (referrer) => referrer.digest,
    fits: countThatFit,
    ...(wanted === null ? {} : { keep: { artifactType: wanted } }),
  });
  const mediaType = 'application/vnd.oci.image.index.v1+json';
  return replyJson(
    exchange,
    { schemaVersion: 2, mediaType, manifests: items },
    {
      'content-type': mediaType,
      ...(wanted === null ? {} : { 'oci-filters-applied': 'artifactType' }),
      ...headers,
    },
  );
}

/** One descriptor at least, however long its annotations are. */
function countThatFit(descriptors: readonly object[]): number {
  let bytes = 0;
  const over = descriptors.findIndex((descriptor) => {
    bytes += JSON.stringify(descriptor).length;
    return bytes > LARGEST_LIST;
  });
  return over === -1 ? descriptors.length : Math.max(over, 1);
}
