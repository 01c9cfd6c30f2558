import { isSkycapError } from '../../../kernel/index.ts';
import { digestOf, digestParts, isTag, LARGEST_DOCUMENT } from '../../names/index.ts';
import type { Digest } from '../../types.ts';
import { isUnchanged } from './conditions.ts';
import { type ManifestFacts, readFacts } from './content.ts';
import { pushedReference } from './names.ts';
import { type Exchange, Refused, readBody, reply } from './reply.ts';
import type { Route } from './route.ts';
import { ingest, type WriteContext } from './write.ts';

type ManifestRoute = Extract<Route, { readonly kind: 'manifest' }>;

const MOST_TAGS = 32;

/** distribution-spec, "Pushing Manifests"; `?tag=` gives a manifest that is pushed by digest its tags. */
export async function putManifest(
  exchange: Exchange,
  context: WriteContext,
  route: ManifestRoute,
): Promise<void> {
  const { content } = context;
  const { repository } = route;
  const tags = tagsOf(exchange, route);
  const bytes = await readBody(exchange, LARGEST_DOCUMENT);
  const digest = digestOf(bytes, route.digest === undefined ? 'sha256' : digestParts(route.digest).algorithm);
  if (route.digest !== undefined && route.digest !== digest)
    throw new Refused(400, 'DIGEST_INVALID', 'the manifest does not have this digest');
  const facts = factsOf(bytes, digest, exchange.request.headers['content-type']);
  if (!context.sparse) await assertParts(context, repository, facts);
  await context.protect(digest);
  await ingest(exchange, content, { blob: facts.descriptor, open: () => one(bytes) });
  // By its digest as well where it refers to something: the list of referrers outlives its tags.
  const names = [
    ...tags.map((tag) => pushedReference(repository, { tag })),
    ...(tags.length === 0 || facts.subject !== undefined ? [pushedReference(repository, { digest })] : []),
  ];
  await context.content.exclusive(async () => {
    const current = await content.resolve(repository, route);
    isUnchanged(exchange.method, exchange.request.headers, current?.descriptor.digest);
    await content.show(repository, digest);
    for (const name of names) await content.store.tag(name, facts.descriptor, { sparse: true });
  });
  reply(exchange, 201, {
    location: `/v2/${repository}/manifests/${digest}`,
    'docker-content-digest': digest,
    ...(facts.subject === undefined ? {} : { 'oci-subject': facts.subject }),
    ...(route.digest === undefined || tags.length === 0 ? {} : { 'oci-tag': tags }),
  });
}

function tagsOf(exchange: Exchange, route: ManifestRoute): readonly string[] {
  if (route.tag !== undefined) return [route.tag];
  const tags = [...new Set(exchange.query.getAll('tag'))];
  if (tags.length > MOST_TAGS) throw new Refused(414, 'TAG_INVALID', `at most ${MOST_TAGS} tags at once`);
  if (!tags.every(isTag)) throw new Refused(400, 'TAG_INVALID', 'malformed tag');
  return tags;
}

/** A manifest's config and layers (those with addresses of their own left out); one manifest of an index at least. */
async function assertParts(context: WriteContext, repository: string, facts: ManifestFacts): Promise<void> {
  const { content } = context;
  let missing: Digest | undefined;
  for (const part of facts.parts) {
    const present = await content.hasBlob(repository, part);
    if (present && facts.isIndex) return;
    if (!present) missing ??= part;
  }
  if (missing !== undefined)
    throw new Refused(400, 'MANIFEST_BLOB_UNKNOWN', `${missing}, which this leads to, is not here`);
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield bytes;
}

function factsOf(bytes: Uint8Array, digest: Digest, contentType: string | undefined): ManifestFacts {
  try {
    return readFacts(bytes, digest, contentType);
  } catch (error) {
    if (isSkycapError(error)) throw new Refused(400, 'MANIFEST_INVALID', error.message);
    throw error;
  }
}

export async function deleteManifest(
  exchange: Exchange,
  context: WriteContext,
  route: ManifestRoute,
): Promise<void> {
  const { content } = context;
  const { repository } = route;
  await content.exclusive(async () => {
    const found = await content.resolve(repository, route);
    if (found === undefined) throw new Refused(404, 'MANIFEST_UNKNOWN', 'no such manifest');
    const { digest } = found.descriptor;
    isUnchanged(exchange.method, exchange.request.headers, digest);
    await content.settle(repository);
    for (const entry of await content.entries(repository)) {
      const hit =
        route.tag === undefined ? entry.descriptor.digest === digest : entry.reference.tag === route.tag;
      if (hit) await content.store.untag(entry.text);
    }
    if (route.digest !== undefined) await content.hide(repository, digest);
  });
  reply(exchange, 202, {});
}
