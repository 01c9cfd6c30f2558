import { readFile } from 'node:fs/promises';
import { writeFileAtomic } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { Fields, isObject, type JsonObject, parseStrictJson } from '../image/json.ts';
import { parseDescriptor } from '../image/parse.ts';
import type { Descriptor } from '../types.ts';
import type { Layout } from './layout.ts';

/** image-spec, annotations.md: meaningful in a layout's index.json only. */
const REF_NAME = 'org.opencontainers.image.ref.name';

export interface TaggedDescriptor {
  readonly reference: string | undefined;
  readonly descriptor: Descriptor;
}

/** @throws OCI_STORE_INVALID */
export async function readIndexFile(layout: Layout): Promise<JsonObject> {
  const bytes = await readFile(layout.index);
  try {
    const value = parseStrictJson(bytes, 'index.json');
    if (isObject(value) && Array.isArray(value.manifests)) return value;
  } catch {
    // One message for all that can be wrong with it.
  }
  throw ociError('OCI_STORE_INVALID', `${layout.index} is damaged`, {
    hint: 'run `skycap image fsck --repair`; the blobs are kept, the names are lost',
  });
}

export async function readTags(layout: Layout): Promise<readonly TaggedDescriptor[]> {
  const fields = new Fields('index.json');
  const list = (await readIndexFile(layout)).manifests as readonly unknown[];
  return list.map((item, index) => {
    const descriptor = parseDescriptor(item, `manifests[${index}]`, fields);
    return { reference: descriptor.annotations?.[REF_NAME], descriptor };
  });
}

/** Names one manifest and keeps everything else in the file as it is. The caller holds the store's lock. */
export async function writeTag(layout: Layout, reference: string, descriptor: Descriptor): Promise<void> {
  const named = {
    mediaType: descriptor.mediaType,
    digest: descriptor.digest,
    size: descriptor.size,
    annotations: { ...descriptor.annotations, [REF_NAME]: reference },
  };
  await change(layout, (list) => [...list.filter((item) => refName(item) !== reference), named]);
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
  await writeFileAtomic(layout.index, JSON.stringify({ ...before, manifests: after }), { mode: 0o644 });
}

function refName(item: unknown): unknown {
  if (!isObject(item) || !isObject(item.annotations)) return undefined;
  return item.annotations[REF_NAME];
}
