import { writeFileAtomic } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { Fields, isObject, type JsonObject, parseStrictJson } from '../image/json.ts';
import { parseDescriptor } from '../image/parse.ts';
import type { Descriptor } from '../types.ts';
import { attempt } from './attempt.ts';
import { type Layout, readPlainFile } from './layout.ts';
import { storeError } from './problems.ts';
import { step } from './steps.ts';

/** image-spec, annotations.md: meaningful in a layout's index.json only. */
const REF_NAME = 'org.opencontainers.image.ref.name';

/** Our own: something that the manifest leads to was left out on purpose, so `fsck` does not miss it. */
const SPARSE = 'dev.skycap.sparse';

export interface TaggedDescriptor {
  readonly reference: string | undefined;
  readonly descriptor: Descriptor;
  readonly sparse: boolean;
}

/** That no document stands there, which trying again would not change. */
const NO_DOCUMENT: ReadonlySet<unknown> = new Set(['ENOENT', 'EISDIR', 'ELOOP', 'ENXIO']);

/**
 * undefined where it is damaged: gone, no plain file, or not what an index.json is. A fault of the system while it is
 * read says nothing about it.
 *
 * @throws OCI_STORE_INVALID
 */
export async function tryIndexFile(layout: Layout): Promise<JsonObject | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readPlainFile(layout.index);
  } catch (error) {
    if (NO_DOCUMENT.has((error as { readonly code?: unknown }).code)) return undefined;
    throw storeError(error, layout.directory);
  }
  const value = attempt(() => parseStrictJson(bytes, 'index.json'));
  return isObject(value) && Array.isArray(value.manifests) ? value : undefined;
}

/** @throws OCI_STORE_INVALID */
export async function readIndexFile(layout: Layout): Promise<JsonObject> {
  const value = await tryIndexFile(layout);
  if (value !== undefined) return value;
  throw ociError('OCI_STORE_INVALID', `${layout.index} is damaged`, {
    hint: 'run `skycap image fsck --repair`; the blobs are kept, the names are lost',
    place: { file: layout.index },
  });
}

/** @throws OCI_STORE_INVALID */
export async function readTags(layout: Layout): Promise<readonly TaggedDescriptor[]> {
  const list = (await readIndexFile(layout)).manifests as readonly unknown[];
  return list.map((item, index) => {
    const tagged = parseTag(item);
    if (tagged !== undefined) return tagged;
    throw ociError('OCI_STORE_INVALID', `${layout.index} is damaged: manifests[${index}] is no descriptor`, {
      hint: 'run `skycap image fsck --repair`; only this name is lost',
      place: { file: layout.index },
    });
  });
}

/** One entry of index.json, or undefined where it is no descriptor. */
export function parseTag(item: unknown): TaggedDescriptor | undefined {
  const descriptor = attempt(() => parseDescriptor(item, 'manifests', new Fields('index.json')));
  if (descriptor === undefined) return undefined;
  const { annotations } = descriptor;
  return { reference: annotations?.[REF_NAME], descriptor, sparse: annotations?.[SPARSE] === 'true' };
}

/** Names one manifest and keeps everything else in the file as it is. The caller holds the store's lock. */
export async function writeTag(
  layout: Layout,
  { reference, descriptor, sparse }: { reference: string; descriptor: Descriptor; sparse: boolean },
): Promise<void> {
  const { [SPARSE]: _before, ...annotations } = descriptor.annotations ?? {};
  const named = {
    mediaType: descriptor.mediaType,
    digest: descriptor.digest,
    size: descriptor.size,
    annotations: { ...annotations, ...(sparse ? { [SPARSE]: 'true' } : {}), [REF_NAME]: reference },
  };
  const text = JSON.stringify(named);
  await change(layout, (list) => {
    const same = list.filter((item) => refName(item) === reference);
    if (same.length === 1 && JSON.stringify(same[0]) === text) return list;
    return [...list.filter((item) => refName(item) !== reference), named];
  });
}

export async function removeTag(layout: Layout, reference: string): Promise<boolean> {
  let found = false;
  await change(layout, (list) =>
    list.filter((item) => {
      if (refName(item) !== reference) return true;
      found = true;
      return false;
    }),
  );
  return found;
}

/** Drops the entries that `keep` says no to. */
export async function filterTags(layout: Layout, keep: (item: unknown) => boolean): Promise<void> {
  await change(layout, (list) => list.filter(keep));
}

async function change(layout: Layout, edit: (list: readonly unknown[]) => readonly unknown[]): Promise<void> {
  const before = await readIndexFile(layout);
  const list = before.manifests as readonly unknown[];
  const after = edit(list);
  if (after.length === list.length && after.every((item, index) => item === list[index])) return;
  await writeFileAtomic(layout.index, JSON.stringify({ ...before, manifests: after }), {
    mode: 0o644,
    at: (moment) => step(`index.${moment}`),
  });
}

function refName(item: unknown): unknown {
  if (!isObject(item) || !isObject(item.annotations)) return undefined;
  return item.annotations[REF_NAME];
}
