import { ociError } from '../../errors.ts';
import { isObject, type JsonObject, parseStrictJson } from '../../image/json.ts';
import { OCI_INDEX } from '../../image/media-types.ts';
import { isDigest, quoted } from '../../names/index.ts';
import type { Descriptor, Digest } from '../../types.ts';
import type { Host } from './host.ts';
import { listInvalid, type Page, pagesOf } from './pages.ts';
import { readReferrer, readReferrersTag } from './referrers-tag.ts';
import { pullScope, type Target } from './target.ts';

const WHAT = 'the list of referrers';
/** What registries answer that do not know the address; the specification names the first. */
const NOT_OFFERED = [404, 405, 501];
const FILTERS_APPLIED = 'org.opencontainers.referrers.filtersApplied';

/** Whether a registry offers the API, by repository: behind one name may stand several. */
const offers = new WeakMap<Host, Map<string, boolean>>();

function remember(target: Target, isOffered: boolean): boolean {
  const known = offers.get(target.host) ?? new Map<string, boolean>();
  offers.set(target.host, known.set(target.repository, isOffered));
  return isOffered;
}

/**
 * What refers to `subject`, from every page, each once (distribution-spec, "Listing Referrers"). Where the registry
 * does not offer that, what stands at the fallback tag; nothing there is no referrers.
 */
export async function listReferrers(
  target: Target,
  subject: Digest,
  artifactType: string | undefined,
): Promise<readonly Descriptor[]> {
  const found = (await fromApi(target, subject, artifactType)) ?? (await fromTag(target, subject));
  const isWanted = (item: Found): boolean =>
    item.isFiltered || artifactType === undefined || item.descriptor.artifactType === artifactType;
  return [
    ...new Map(
      found.filter(isWanted).map(({ descriptor }) => [descriptor.digest, descriptor] as const),
    ).values(),
  ];
}

interface Found {
  readonly descriptor: Descriptor;
  /** The registry says that it has left out what was not asked for. */
  readonly isFiltered: boolean;
}

async function fromApi(
  target: Target,
  subject: Digest,
  artifactType: string | undefined,
): Promise<readonly Found[] | undefined> {
  const query = artifactType === undefined ? '' : `?${new URLSearchParams({ artifactType })}`;
  const found: Found[] = [];
  const request = {
    path: `${target.repository}/referrers/${subject}${query}`,
    what: WHAT,
    mediaType: OCI_INDEX,
    accept: NOT_OFFERED,
  };
  for await (const page of pagesOf(target, request)) {
    if (!isIndex(page)) {
      if (found.length > 0) throw listInvalid(target.subject, WHAT, 'one of its pages is missing');
      remember(target, false);
      return undefined;
    }
    const body = readIndex(page.bytes, target.subject);
    const isFiltered = artifactType !== undefined && filters(page, body).includes('artifactType');
    found.push(...body.manifests.map((item) => ({ descriptor: readReferrer(item, target), isFiltered })));
  }
  remember(target, true);
  return found;
}

async function fromTag(target: Target, subject: Digest): Promise<readonly Found[]> {
  const list = await readReferrersTag(target, subject);
  return (list?.manifests ?? []).map((item) => ({
    descriptor: readReferrer(item, target),
    isFiltered: false,
  }));
}

/** A web page in place of an index is a registry that does not know the address, whatever the status says. */
function isIndex({ response }: Page): boolean {
  const type = response.values('content-type')[0]?.split(';')[0]?.trim().toLowerCase();
  return response.status === 200 && (type === OCI_INDEX || type === 'application/json');
}

function filters({ response }: Page, body: JsonObject): readonly string[] {
  const annotation = isObject(body.annotations) ? body.annotations[FILTERS_APPLIED] : undefined;
  return [...response.values('oci-filters-applied'), typeof annotation === 'string' ? annotation : '']
    .flatMap((line) => line.split(','))
    .map((name) => name.trim());
}

function readIndex(
  bytes: Uint8Array,
  subject: string,
): JsonObject & { readonly manifests: readonly unknown[] } {
  const body = parseStrictJson(bytes, `${subject}: ${WHAT}`);
  if (!isObject(body)) throw listInvalid(subject, WHAT, 'it is no JSON object');
  const manifests = body.manifests ?? [];
  if (!Array.isArray(manifests)) throw listInvalid(subject, WHAT, 'it holds no list');
  return { ...body, manifests };
}

/** Asks, since `OCI-Subject` alone is no proof: some registries send it and then know no referrers. */
export async function offersReferrers(target: Target, subject: Digest): Promise<boolean> {
  const known = offers.get(target.host)?.get(target.repository);
  if (known !== undefined) return known;
  const { host, repository, options, caller } = target;
  const { response } = await caller.call({
    host,
    repository,
    path: `${repository}/referrers/${subject}`,
    subject: target.subject,
    options,
    scopes: [pullScope(repository)],
    accept: [200, ...NOT_OFFERED],
    headers: { accept: OCI_INDEX },
    lane: 'control',
  });
  await response.discard();
  return remember(target, isIndex({ response, bytes: new Uint8Array(0) }));
}

/** Whom a manifest or index refers to. */
export function subjectOf(body: JsonObject, where: string): Digest | undefined {
  if (body.subject === undefined || body.subject === null) return undefined;
  const digest = isObject(body.subject) ? body.subject.digest : undefined;
  if (isDigest(digest)) return digest;
  throw ociError('OCI_MANIFEST_INVALID', `${where}: its subject ${quoted(String(digest))} is not a digest`, {
    hint: 'ask who made the manifest',
  });
}
