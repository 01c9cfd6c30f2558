import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { isSkycapError } from '../../kernel/index.ts';
import { helperEnvironment } from '../../kernel/system/index.ts';
import {
  type LayerSink,
  NeedsParents,
  NotErofs,
  openErofsSink,
  openSink,
  owned,
  type Unpacked,
  unpackLayer,
} from '../layer/index.ts';
import type { IdMap, Lower, LowerForm, TransferOptions } from '../port.ts';
import type { Digest, PinnedLayer } from '../types.ts';
import { readBlobFile, sizeOf } from './ingest.ts';
import {
  bootId,
  chainId,
  contentOf,
  type LayerName,
  type LayerRecord,
  layerDirectory,
  layerKey,
  lowerOf,
  RECORD,
  readRecord,
  readRecordAt,
  recordImage,
} from './layers.ts';
import type { Layout } from './layout.ts';
import { acquireLock } from './lock.ts';
import { lowerFinder } from './lower-file.ts';
import { missing, storeError } from './problems.ts';
import { Slots } from './slots.ts';
import { step } from './steps.ts';

/** Inflating, checking and writing overlap best with one layer for each core; more costs memory only. */
const PARALLEL = Math.max(1, Math.min(4, availableParallelism()));
const READ_CHUNK = 256 * 1024;

/** Stands in a record instead of content. */
type Mark = { readonly needsParents: true } | { readonly notErofs: string };

/** How the caller wants its layers. */
export interface Shape {
  readonly map: IdMap | undefined;
  readonly form: LowerForm;
}

/**
 * Unpacks layers into the store, each once, whatever processes ask for it: under the layer's lock, in a
 * folder of its own, made visible by one rename after its diffID was found right.
 */
export class Unpacker {
  readonly #layout: Layout;
  readonly #slots = new Slots(PARALLEL);
  readonly #written = new Map<string, LayerRecord>();
  #syncing: Promise<void> | undefined;

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  /** One layer, or undefined where it cannot be unpacked without its parents. */
  async layer(layer: PinnedLayer, shape: Shape, options: TransferOptions): Promise<Lower | undefined> {
    const name: LayerName = { ...shape, id: layer.diffId };
    const record =
      (await readRecord(this.#layout, name)) ??
      (await this.#make(layer, name, { ...options, parents: undefined }));
    if (record.needsParents === true) return undefined;
    if (record.notErofs === undefined) return lowerOf(this.#layout, name);
    sayFolder(record, options);
    return await this.layer(layer, { ...shape, form: 'folder' }, options);
  }

  /** All layers of an image, lowest first. Those that need their parents wait for them. */
  async all(
    layers: readonly PinnedLayer[],
    shape: Shape,
    options: TransferOptions,
  ): Promise<readonly Lower[]> {
    const stop = new AbortController();
    const signal = AbortSignal.any([options.signal, stop.signal]);
    const lowers: Promise<Lower>[] = [];
    let chain: Digest | undefined;
    for (const [index, layer] of layers.entries()) {
      const id = chainId(chain, layer.diffId);
      chain = id;
      const below = lowers.slice(0, index);
      lowers.push(this.#one(layer, { ...shape, id }, { ...options, signal, below }));
    }
    const settled = await Promise.allSettled(
      lowers.map((lower) =>
        lower.catch((error: unknown) => {
          stop.abort();
          throw error;
        }),
      ),
    );
    const failed = settled.filter((one) => one.status === 'rejected').map((one) => one.reason as unknown);
    // The first fault stops the others, whose "cancelled" says nothing.
    const cause = failed.find((error) => !isSkycapError(error, 'CANCELLED')) ?? failed[0];
    if (cause !== undefined) throw cause as Error;
    this.#startSync();
    return await visible(settled.map((one) => (one as PromiseFulfilledResult<Lower>).value));
  }

  async #one(
    layer: PinnedLayer,
    chained: LayerName,
    options: TransferOptions & { readonly below: readonly Promise<Lower>[] },
  ): Promise<Lower> {
    const alone = await this.layer(layer, chained, options);
    if (alone !== undefined) return alone;
    return await this.#chained(layer, chained, { ...options, parents: await Promise.all(options.below) });
  }

  async #chained(
    layer: PinnedLayer,
    name: LayerName,
    options: TransferOptions & { readonly parents: readonly Lower[] },
  ): Promise<Lower> {
    const known = await readRecord(this.#layout, name);
    // The lowest layer's chainID is its diffID, whose record says only that it has no parents to look into.
    const record =
      known === undefined || known.needsParents === true ? await this.#make(layer, name, options) : known;
    if (record.notErofs === undefined) return lowerOf(this.#layout, name);
    sayFolder(record, options);
    return await this.#chained(layer, { ...name, form: 'folder' }, options);
  }

  async #make(
    layer: PinnedLayer,
    name: LayerName,
    options: TransferOptions & { readonly parents: readonly Lower[] | undefined },
  ): Promise<LayerRecord> {
    return await this.#slots.with(async () => {
      using _lock = await acquireLock(this.#layout.layerLock(layerKey(name)), options);
      const there = await readRecord(this.#layout, name);
      if (there !== undefined && !(there.needsParents === true && options.parents !== undefined))
        return there;
      return await this.#write(layer, name, options);
    });
  }

  async #write(
    layer: PinnedLayer,
    name: LayerName,
    options: TransferOptions & { readonly parents: readonly Lower[] | undefined },
  ): Promise<LayerRecord> {
    const temporary = join(this.#layout.layers, `tmp-${layerKey(name)}-${randomBytes(4).toString('hex')}`);
    const head = {
      version: 1,
      id: name.id,
      diffId: layer.diffId,
      map: name.map ?? null,
      boot: await bootId(),
    } as const;
    try {
      await this.#sweepTemporary(layerKey(name));
      const content = contentOf(temporary, name.form);
      await mkdir(name.form === 'folder' ? content : temporary, { recursive: true, mode: 0o700 });
      step('layer.begin');
      const unpacked = await this.#unpack(layer, content, { ...options, ...name });
      step('layer.unpacked');
      const record: LayerRecord = { ...head, entries: 0, opaque: [], ...unpacked, durable: false };
      // Not synced: after a power failure the record is not believed anyway.
      await writeFile(join(temporary, RECORD), JSON.stringify(record), { mode: 0o600 });
      step('layer.record');
      await this.#reveal(temporary, layerDirectory(this.#layout, name));
      this.#written.set(layerDirectory(this.#layout, name), record);
      if ('entries' in unpacked) {
        options.emit({ type: 'layer.unpacked', diffId: layer.diffId, entries: unpacked.entries });
      }
      return record;
    } catch (error) {
      await removeStubbornly(temporary);
      throw storeError(error, this.#layout.directory);
    }
  }

  async #unpack(
    layer: PinnedLayer,
    content: string,
    options: TransferOptions & Shape & { readonly parents: readonly Lower[] | undefined },
  ): Promise<Pick<LayerRecord, 'entries' | 'opaque' | 'image'> | Mark> {
    const path = this.#layout.blob(layer.digest);
    if ((await sizeOf(path)) === undefined) throw missing(layer.digest);
    const blob = createReadStream(path, { highWaterMark: READ_CHUNK });
    const { parents, map, signal } = options;
    const lower = parents === undefined ? undefined : lowerFinder(parents, map);
    try {
      const unpack = async (sink: LayerSink): Promise<Unpacked> =>
        await unpackLayer(owned(blob), sink, {
          map,
          signal,
          lower,
          diffId: layer.diffId,
          mediaType: layer.mediaType,
        });
      if (options.form === 'folder') {
        const { entries, opaque } = await unpack(await openSink(content));
        return { entries, opaque };
      }
      const { entries, opaque } = await unpack(await openErofsSink(content));
      return { entries, opaque, image: await recordImage(content) };
    } catch (error) {
      if (error instanceof NeedsParents || error instanceof NotErofs) {
        await removeStubbornly(content);
        return error instanceof NotErofs ? { notErofs: error.because } : { needsParents: true };
      }
      if (isSkycapError(error) && ['OCI_LAYER_INVALID', 'OCI_LAYER_DIFFID'].includes(error.code)) {
        // Is the image wrong, or have the stored bytes changed? The latter has another remedy.
        for await (const _chunk of readBlobFile(path, layer.digest));
      }
      throw error;
    } finally {
      blob.destroy();
    }
  }

  /** What stands in the way is a layer that a crash of the machine made doubtful, or a mark without content. */
  async #reveal(temporary: string, target: string): Promise<void> {
    const old = join(this.#layout.trash, randomBytes(8).toString('hex'));
    const moved = await rename(target, old).then(
      () => true,
      () => false,
    );
    if (moved) step('layer.replace');
    await rename(temporary, target);
    step('layer.renamed');
    if (moved) await removeStubbornly(old);
  }

  /** Leftovers of dead processes; the caller holds the lock of this layer. */
  async #sweepTemporary(key: string): Promise<void> {
    for (const entry of await readdir(this.#layout.layers))
      if (entry.startsWith(`tmp-${key.slice(0, 2)}`))
        await removeStubbornly(join(this.#layout.layers, entry));
  }

  /**
   * Brings what was unpacked to the disk in the background. Nobody waits for it: until it is done the layers are
   * believed in this boot only, so a power failure costs the work and never the content.
   */
  #startSync(): void {
    if (this.#written.size === 0) return;
    const batch = [...this.#written];
    this.#written.clear();
    const before = this.#syncing ?? Promise.resolve();
    this.#syncing = before.then(async () => {
      if (!(await syncFileSystem(this.#layout.directory))) return;
      for (const [directory, record] of batch) await markDurable(directory, record);
    });
  }

  async close(): Promise<void> {
    this.#startSync();
    await this.#syncing;
  }
}

function sayFolder({ diffId, notErofs }: LayerRecord, { emit }: TransferOptions): void {
  if (notErofs !== undefined) emit({ type: 'layer.folder', diffId, because: notErofs });
}

/** overlayfs does not look whether a layer's root is opaque, so what such a layer hides is left out. */
export async function visible(lowers: readonly Lower[]): Promise<readonly Lower[]> {
  const records = await Promise.all(lowers.map((lower) => readRecordAt(dirname(lower.path))));
  const top = records.findLastIndex((record) => record?.opaque.includes('') === true);
  return top === -1 ? lowers : lowers.slice(top);
}

/** Another process's tar may still be dying in there, so what was added meanwhile is removed again. */
export async function removeStubbornly(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
}

/** Replaced in one step but not synced: if this is lost, the layer is written once more. */
async function markDurable(directory: string, record: LayerRecord): Promise<void> {
  const next = join(directory, `${RECORD}.next`);
  try {
    await writeFile(next, JSON.stringify({ ...record, durable: true }), { mode: 0o600 });
    step('layer.durable');
    await rename(next, join(directory, RECORD));
  } catch {
    // Pruned meanwhile, or no space: it stays as it was.
  }
}

/** Node has no syncfs; coreutils' `sync -f` is one. */
async function syncFileSystem(path: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const child = spawn('sync', ['-f', path], { stdio: 'ignore', env: helperEnvironment() });
    child.on('error', () => resolve(false));
    child.on('close', (code) => resolve(code === 0));
  });
}
