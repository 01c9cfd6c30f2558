import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { hasGnuTar } from '../layer/index.ts';
import type { FsckFinding, Lower, LowerForm, TransferOptions } from '../port.ts';
import type { Digest } from '../types.ts';
import { layerDifference } from './compare.ts';
import type { Reached, ReachedLayer } from './graph.ts';
import { readBlobFile } from './ingest.ts';
import {
  chainId,
  contentOf,
  isImage,
  isWhole,
  type LayerName,
  type LayerRecord,
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
      for (const id of [layer.diffId, chain]) sources.set(id, { layer, below: layers.slice(0, index) });
    }
  }
  return sources;
}

interface Look {
  readonly path: string;
  readonly record: LayerRecord | undefined;
  readonly sources: Sources;
  readonly signal: AbortSignal;
}

async function layerProblem(layout: Layout, look: Look): Promise<string | undefined> {
  const { path, record } = look;
  if (record === undefined) return 'an unpacked layer without its record';
  if (!isWhole(record)) return undefined;
  const form: LowerForm = record.image === undefined ? 'folder' : 'erofs';
  const content = contentOf(path, form);
  const problem =
    record.image === undefined ? await absence(content) : await imageProblem(content, record.image);
  return problem ?? (await sourceProblem(layout, { kind: form, path: content }, { ...look, record }));
}

async function absence(folder: string): Promise<string | undefined> {
  const info = await stat(folder).catch(() => undefined);
  return info?.isDirectory() === true ? undefined : 'an unpacked layer without its files';
}

async function imageProblem(
  path: string,
  image: NonNullable<LayerRecord['image']>,
): Promise<string | undefined> {
  return (await isImage(path, image))
    ? undefined
    : 'the file of an unpacked layer has been replaced or changed';
}

/**
 * A layer that no name leads to, whose blob or parents are damaged, or a folder on a host without GNU tar, is compared
 * with nothing.
 */
async function sourceProblem(
  layout: Layout,
  lower: Lower,
  { record, sources, signal }: Look & { readonly record: LayerRecord },
): Promise<string | undefined> {
  const source = sources.get(record.id);
  if (source === undefined || (lower.kind === 'folder' && !(await hasGnuTar()))) return undefined;
  const blob = layout.blob(source.layer.digest);
  try {
    for await (const _chunk of readBlobFile(blob, source.layer.digest));
  } catch (error) {
    if (isSkycapError(error, 'OCI_BLOB_MISSING') || isSkycapError(error, 'OCI_BLOB_CORRUPT'))
      return undefined;
    throw error;
  }
  const map = record.map ?? undefined;
  const alone = record.id === record.diffId;
  const parents = alone ? undefined : await lowersOf(layout, source.below, { map, form: lower.kind });
  const { diffId } = record;
  const difference = await layerDifference({ blob, diffId, lower, map, parents, signal });
  return difference === undefined ? undefined : `an unpacked layer is not what its blob holds: ${difference}`;
}

/** undefined where one of them is not there. */
async function lowersOf(
  layout: Layout,
  layers: readonly ReachedLayer[],
  shape: Omit<LayerName, 'id'>,
): Promise<readonly Lower[] | undefined> {
  const lowers: Lower[] = [];
  let chain: Digest | undefined;
  for (const { diffId } of layers) {
    chain = chainId(chain, diffId);
    const forms: readonly LowerForm[] = shape.form === 'erofs' ? ['erofs', 'folder'] : ['folder', 'erofs'];
    // A layer that is no file-system image, and one that is a folder for that reason, stand among others.
    const names = forms.flatMap((form) => [diffId, chain as Digest].map((id) => ({ ...shape, form, id })));
    const records = await Promise.all(names.map((name) => readRecord(layout, name)));
    const there = names.find((_name, index) => isWhole(records[index]));
    if (there === undefined) return undefined;
    lowers.push(lowerOf(layout, there));
  }
  return lowers;
}
