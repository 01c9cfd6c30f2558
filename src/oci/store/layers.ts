import { randomUUID } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { digestOf, isDigest } from '../names/index.ts';
import type { IdMap, Lower, LowerForm } from '../port.ts';
import type { Digest } from '../types.ts';
import type { Layout } from './layout.ts';

/** image-spec, config.md, "Layer ChainID". */
export function chainId(parent: Digest | undefined, diffId: Digest): Digest {
  return parent === undefined ? diffId : digestOf(`${parent} ${diffId}`);
}

/** One unpacked layer: by diffID, or by chainID where it links into its parents; the ids it was shifted by; its form. */
export interface LayerName {
  readonly id: Digest;
  readonly map: IdMap | undefined;
  readonly form: LowerForm;
}

/**
 * Short, because overlayfs takes its lower folders in one page. 128 bits name the folder; the record in it holds the
 * whole digest and is compared.
 */
export function layerKey(name: LayerName): string {
  const map = name.map === undefined ? 'unshifted' : `${name.map.hostBase}+${name.map.size}`;
  const form = name.form === 'folder' ? '' : ` ${name.form}`;
  return digestOf(`${name.id} ${map}${form}`).slice('sha256:'.length, 'sha256:'.length + 32);
}

export interface LayerRecord {
  readonly version: 1;
  readonly id: Digest;
  readonly diffId: Digest;
  readonly map: IdMap | null;
  readonly entries: number;
  readonly opaque: readonly string[];
  /** Of a layer that is one EROFS file. */
  readonly image?: ImageRecord;
  /** Set instead of content: the layer links into its parents, so look for its chainID. */
  readonly needsParents?: true;
  /** Set instead of content: why the layer is no file-system image. Look for its folder. */
  readonly notErofs?: string;
  /** The boot in which it was written; until `durable` it is believed in that boot only. */
  readonly boot: string;
  readonly durable: boolean;
}

/** The file as it was written: what has changed since is not mounted. */
export interface ImageRecord {
  readonly size: number;
  readonly inode: string;
  /** Nanoseconds since 1970. */
  readonly ctime: string;
}

export const RECORD = 'layer.json';
export const ROOT = 'root';
export const IMAGE = 'image.erofs';

let boot: Promise<string> | undefined;

export function bootId(): Promise<string> {
  boot ??= readFile('/proc/sys/kernel/random/boot_id', 'utf8').then(
    (text) => text.trim(),
    // Nobody else's boot: what is not durable is then believed by this process only.
    () => randomUUID(),
  );
  return boot;
}

export function layerDirectory(layout: Layout, name: LayerName): string {
  return join(layout.layers, layerKey(name));
}

export function lowerOf(layout: Layout, name: LayerName): Lower {
  return { kind: name.form, path: contentOf(layerDirectory(layout, name), name.form) };
}

export function contentOf(directory: string, form: LowerForm): string {
  return join(directory, form === 'folder' ? ROOT : IMAGE);
}

export async function recordImage(path: string): Promise<ImageRecord> {
  const { size, ino, ctimeNs } = await stat(path, { bigint: true });
  return { size: Number(size), inode: String(ino), ctime: String(ctimeNs) };
}

/** Whether the file is still the one that was written, as far as its metadata tell. */
export async function isImage(path: string, record: ImageRecord | undefined): Promise<boolean> {
  if (record === undefined) return false;
  const now = await recordImage(path).catch(() => undefined);
  return now?.size === record.size && now.inode === record.inode && now.ctime === record.ctime;
}

/** undefined where the layer is not there, or was not safely on disk when the machine went down. */
export async function readRecord(layout: Layout, name: LayerName): Promise<LayerRecord | undefined> {
  const record = await readRecordAt(layerDirectory(layout, name));
  if (record === undefined || record.id !== name.id) return undefined;
  if (record.map?.hostBase !== name.map?.hostBase || record.map?.size !== name.map?.size) return undefined;
  if (name.form === 'erofs' && isWhole(record)) {
    const path = contentOf(layerDirectory(layout, name), name.form);
    if (!(await isImage(path, record.image))) return undefined;
  }
  if (!record.durable && record.boot !== (await bootId())) return undefined;
  return record;
}

/** Whether the layer is there, and not only a mark that says where else to look for it. */
export function isWhole(record: LayerRecord | undefined): record is LayerRecord {
  return record !== undefined && record.needsParents !== true && record.notErofs === undefined;
}

export async function readRecordAt(directory: string): Promise<LayerRecord | undefined> {
  const record = await readFile(join(directory, RECORD), 'utf8')
    .then((text) => JSON.parse(text) as LayerRecord | null)
    .catch(() => undefined);
  return record?.version === 1 && isDigest(record.id) && isDigest(record.diffId) ? record : undefined;
}
