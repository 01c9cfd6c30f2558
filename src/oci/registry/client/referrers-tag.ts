import type { HttpResponse } from '../../../kernel/http/index.ts';
import { isSkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import { Fields, isObject, type JsonObject, parseStrictJson } from '../../image/json.ts';
import { OCI_INDEX } from '../../image/media-types.ts';
import { parseDescriptor } from '../../image/parse.ts';
import { referrersTag } from '../../image/referrers-tag.ts';
import { digestOf, digestParts, LARGEST_DOCUMENT } from '../../names/index.ts';
import type { Descriptor, Digest } from '../../types.ts';
import { remove } from './blobs.ts';
import type { Host } from './host.ts';
import { manifestMediaType } from './manifest.ts';
import { pullScope, pushScope, type Target } from './target.ts';

export interface TaggedReferrers {
  /** The whole document: what others wrote into it stays. */
  readonly body: JsonObject;
  readonly manifests: readonly unknown[];
  /** A strong one only: a weak one may not be asked for in `If-Match` (RFC 9110, 13.1.1). */
  readonly etag: string | undefined;
}

/** @throws OCI_MANIFEST_INVALID where something else than an index stands there */
export async function readReferrersTag(
  target: Target,
  subject: Digest,
): Promise<TaggedReferrers | undefined> {
  const { host, repository, options, caller } = target;
  const tag = referrersTag(subject);
  const where = `${target.subject}: the referrers at the tag ${tag}`;
  const { response, bytes } = await caller.call({
    host,
    repository,
    path: `${repository}/manifests/${tag}`,
    subject: where,
    options,
    scopes: [pullScope(repository)],
    accept: [200, 404],
    collect: LARGEST_DOCUMENT,
    headers: { accept: OCI_INDEX },
    lane: 'control',
  });
  if (response.status === 404) return undefined;
  // Some registries read the tag as the digest that it spells, and answer with the subject itself.
  if (digestOf(bytes, digestParts(subject).algorithm) === subject) return undefined;
  const mediaType = manifestMediaType(bytes, response.values('content-type')[0], where);
  const body = parseStrictJson(bytes, where);
  if (mediaType !== OCI_INDEX || !isObject(body) || !Array.isArray(body.manifests)) {
    throw ociError('OCI_MANIFEST_INVALID', `${where} are no image index`, {
      hint: 'something else has taken that tag; ask who writes to the repository',
    });
  }
  return { body, manifests: body.manifests as readonly unknown[], etag: strongTag(response) };
}

function strongTag(response: HttpResponse): string | undefined {
  const etag = response.values('etag')[0];
  return etag?.startsWith('"') === true ? etag : undefined;
}

export function readReferrer(value: unknown, target: Target): Descriptor {
  return parseDescriptor(value, 'a referrer', new Fields(`${target.subject}: the list of referrers`));
}

/** What the fallback index says of a manifest (distribution-spec, "Pushing Manifests with Subject"). */
export function referrerOf(descriptor: Descriptor, body: JsonObject): Descriptor {
  const config = isObject(body.config) ? body.config.mediaType : undefined;
  const artifactType = [body.artifactType, config].find((type) => typeof type === 'string' && type !== '');
  const fields = new Fields('the manifest to push');
  const annotations = fields.map(body.annotations, 'annotations');
  const { mediaType, digest, size } = descriptor;
  return {
    mediaType,
    digest,
    size,
    ...(typeof artifactType === 'string' ? { artifactType } : {}),
    ...(annotations === undefined ? {} : { annotations }),
  };
}

export async function addReferrer(target: Target, subject: Digest, referrer: Descriptor): Promise<void> {
  await inTurn(target, subject, () =>
    change(target, subject, (manifests) =>
      manifests.some((item) => digestIn(item) === referrer.digest) ? undefined : [...manifests, referrer],
    ),
  );
}

export async function removeReferrer(target: Target, subject: Digest, referrer: Digest): Promise<void> {
  await inTurn(target, subject, () =>
    change(target, subject, (manifests) => {
      const rest = manifests.filter((item) => digestIn(item) !== referrer);
      return rest.length === manifests.length ? undefined : rest;
    }),
  );
}

function digestIn(item: unknown): unknown {
  return isObject(item) ? item.digest : undefined;
}

const turns = new WeakMap<Host, Map<string, Promise<void>>>();

/** Reading and writing are two requests: within one process nobody comes between them. */
async function inTurn(target: Target, subject: Digest, work: () => Promise<void>): Promise<void> {
  const queues = turns.get(target.host) ?? new Map<string, Promise<void>>();
  turns.set(target.host, queues);
  const key = `${target.repository} ${subject}`;
  const before = queues.get(key) ?? Promise.resolve();
  const mine = before.catch(() => {}).then(work);
  queues.set(key, mine);
  try {
    await mine;
  } finally {
    if (queues.get(key) === mine) queues.delete(key);
  }
}

type Change = (manifests: readonly unknown[]) => readonly unknown[] | undefined;

/** Against writers elsewhere there is only `If-Match`, where the registry offers an `ETag`: then it is done anew. */
async function change(target: Target, subject: Digest, edit: Change): Promise<void> {
  const { caller, options, host } = target;
  const attempt = caller.begin();
  for (;;) {
    const list = await readReferrersTag(target, subject);
    const manifests = edit(list?.manifests ?? []);
    if (manifests === undefined) return;
    if (manifests.length === 0 && (await untag(target, subject))) return;
    const index = { schemaVersion: 2, mediaType: OCI_INDEX, ...list?.body, manifests };
    if (await write(target, subject, { index, etag: list?.etag })) return;
    const error = ociError('REGISTRY_BUSY', `${target.subject}: others keep changing its list of referrers`, {
      hint: 'try again',
    });
    const reason = 'status 412';
    await caller.pause(attempt, error, {
      askedMs: undefined,
      transfer: options,
      registry: host.name,
      reason,
    });
  }
}

/** False where the list was changed meanwhile. */
async function write(
  target: Target,
  subject: Digest,
  what: { readonly index: object; readonly etag: string | undefined },
): Promise<boolean> {
  const { host, repository, options, caller } = target;
  const { response } = await caller.call({
    method: 'PUT',
    host,
    repository,
    path: `${repository}/manifests/${referrersTag(subject)}`,
    subject: `${target.subject}: its list of referrers`,
    options,
    scopes: [pushScope(repository)],
    accept: [200, 201, 202, 204, ...(what.etag === undefined ? [] : [412])],
    headers: { 'content-type': OCI_INDEX, 'if-match': what.etag },
    body: Buffer.from(JSON.stringify(what.index)),
    lane: 'control',
  });
  await response.discard();
  return response.status !== 412;
}

/** An empty list is better no list; many registries cannot take a tag away, and then get the empty one. */
async function untag(target: Target, subject: Digest): Promise<boolean> {
  const path = `${target.repository}/manifests/${referrersTag(subject)}`;
  try {
    await remove(target, { path, subject: `${target.subject}: its list of referrers` });
    return true;
  } catch (error) {
    if (isSkycapError(error, 'REGISTRY_NOT_FOUND')) return true;
    if (isSkycapError(error, 'REGISTRY_UNSUPPORTED') || isSkycapError(error, 'REGISTRY_FORBIDDEN'))
      return false;
    throw error;
  }
}
