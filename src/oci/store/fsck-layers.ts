import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { erofsDigest, hasGnuTar } from '../layer/index.ts';
import type { FsckFinding, IdMap, Lower, TransferOptions } from '../port.ts';
import type { Digest } from '../types.ts';
import { layerDifference } from './compare.ts';
import type { Reached, ReachedLayer } from './graph.ts';
import { readBlobFile } from './ingest.ts';
import {
  chainId,
  contentOf,
  isImage,
  type LayerRecord,
  layerDirectory,
  lowerOf,
  readRecord,
  readRecordAt,
} from './layers.ts';
import type { Layout } from './layout.ts';
import { acquireLock } from './lock.ts';
import { moveAside } from './prune.ts';
import { step } from './steps.ts';

export interface FsckOptions extends TransferOptions {
  readonly repair: boolean;
  readonly reach: (roots: Iterable<Digest>) => Promise<Reached>;
  readonly has: (digest: Digest) => Promise<boolean>;
  readonly read: (digest: Digest) => Promise<Uint8Array | undefined>;
  /** What runs, pulls and kept containers hold at this moment. The caller holds the store's lock. */
  readonly leased: () => Promise<ReadonlySet<Digest>>;
}

export interface FsckInput extends FsckOptions {
  /** What names lead to; names that were left incomplete on purpose are not among them. */
  readonly roots: () => Promise<readonly Digest[]>;
}

/** Where the bytes of an unpacked layer come from, by diffID or chainID. */
type Sources = ReadonlyMap<Digest, { readonly layer: ReachedLayer; readonly below: readonly ReachedLayer[] }>;

/** Each unpacked layer against its record, its form, and the blob that it was unpacked from. */
export async function checkLayers(layout: Layout, input: FsckInput): Promise<readonly FsckFinding[]> {
  const findings: FsckFinding[] = [];
  const sources = sourcesOf((await input.reach(await input.roots())).images);
  for (const name of await readdir(layout.layers)) {
    if (name.startsWith('tmp-')) continue;
    if (input.signal.aborted) throw kernelError('CANCELLED', 'cancelled while the store was checked');
    const path = join(layout.layers, name);
    const inode = await inodeOf(path);
    const record = await readRecordAt(path);
    const problem = await layerProblem(layout, { path, record, sources, signal: input.signal });
    // Gone meanwhile, or written anew: what was looked at is not there any more.
    if (problem === undefined || (await inodeOf(path)) !== inode) continue;
    const repaired = input.repair && (await remove(layout, name, { record, inode, input }));
    const message =
      input.repair && !repaired ? `${problem}; in use, so it stays until the run has ended` : problem;
    findings.push({ kind: 'layer', subject: name, message, repaired });
  }
  return findings;
}

async function inodeOf(path: string): Promise<number | undefined> {
  return (await stat(path).catch(() => undefined))?.ino;
}

async function remove(
  layout: Layout,
  name: string,
  { record, inode, input }: { record: LayerRecord | undefined; inode: number | undefined; input: FsckInput },
): Promise<boolean> {
  const path = join(layout.layers, name);
  // First the one that may be held for long.
  using _lock = await acquireLock(layout.layerLock(name), { signal: input.signal });
  using _store = await acquireLock(layout.storeLock, { signal: input.signal });
  if (record !== undefined) {
    const { diffIds } = await input.reach(await input.leased());
    if (diffIds.has(record.diffId)) return false;
  }
  if ((await inodeOf(path)) === inode) await moveAside(layout, path);
  step('fsck.layer');
  return true;
}

function sourcesOf(images: readonly (readonly ReachedLayer[])[]): Sources {
  const sources = new Map<
    Digest,
    { readonly layer: ReachedLayer; readonly below: readonly ReachedLayer[] }
  >();
  for (const layers of images) {
    let chain: Digest | undefined;
    for (const [index, layer] of layers.entries()) {
      chain = chainId(chain, layer.diffId);
      if (!sources.has(layer.diffId)) sources.set(layer.diffId, { layer, below: [] });
      if (chain !== layer.diffId) sources.set(chain, { layer, below: layers.slice(0, index) });
    }
  }
  return sources;
}

async function layerProblem(
  layout: Layout,
  look: { path: string; record: LayerRecord | undefined; sources: Sources; signal: AbortSignal },
): Promise<string | undefined> {
  const { path, record } = look;
  if (record === undefined) return 'an unpacked layer without its record';
  if (record.image !== undefined) return await imageProblem(contentOf(path, 'erofs'), record.image);
  const folder = contentOf(path, 'folder');
  const info = await stat(folder).catch(() => undefined);
  if (record.needsParents === true) return undefined;
  if (info?.isDirectory() !== true) return 'an unpacked layer without its files';
  return await folderProblem(layout, folder, { ...look, record });
}

async function imageProblem(
  path: string,
  image: NonNullable<LayerRecord['image']>,
): Promise<string | undefined> {
  if (!(await isImage(path, image))) return 'the file of an unpacked layer has been replaced or changed';
  return (await erofsDigest(path)) === image.digest
    ? undefined
    : 'the file of an unpacked layer has other bytes';
}

/** A layer that no name leads to, whose blob is damaged, or on a host without GNU tar, is compared with nothing. */
async function folderProblem(
  layout: Layout,
  folder: string,
  { record, sources, signal }: { record: LayerRecord; sources: Sources; signal: AbortSignal },
): Promise<string | undefined> {
  const source = sources.get(record.id);
  if (source === undefined || !(await hasGnuTar())) return undefined;
  const blob = layout.blob(source.layer.digest);
  try {
    for await (const _chunk of readBlobFile(blob, source.layer.digest));
  } catch (error) {
    if (isSkycapError(error, 'OCI_BLOB_MISSING') || isSkycapError(error, 'OCI_BLOB_CORRUPT'))
      return undefined;
    throw error;
  }
  const map = record.map ?? undefined;
  const parents = record.id === record.diffId ? undefined : await lowersOf(layout, source.below, map);
  const { diffId } = record;
  const difference = await layerDifference({ blob, diffId, folder, map, parents, signal });
  return difference === undefined ? undefined : `an unpacked layer is not what its blob holds: ${difference}`;
}

async function lowersOf(
  layout: Layout,
  layers: readonly ReachedLayer[],
  map: IdMap | undefined,
): Promise<readonly Lower[]> {
  const lowers: Lower[] = [];
  let chain: Digest | undefined;
  for (const { diffId } of layers) {
    chain = chainId(chain, diffId);
    const alone = { id: diffId, map, form: 'folder' } as const;
    const record = await readRecord(layout, alone);
    const name = record === undefined || record.needsParents === true ? { ...alone, id: chain } : alone;
    if ((await stat(layerDirectory(layout, name)).catch(() => undefined)) !== undefined)
      lowers.push(lowerOf(layout, name));
  }
  return lowers;
}
