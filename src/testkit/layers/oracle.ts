import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync, inflateSync } from 'node:zlib';
import type { Descriptor, ManifestBytes, RegistryClient } from '../../oci/index.ts';
import { endOfArchive, padding } from '../../oci/layer/index.ts';
import { digestOf } from '../../oci/names/index.ts';
import { rawHeader, tarOf } from '../images/index.ts';

/** What real tools make of 250 odd and hostile layers: test/data/layers/README.md. */
const DATA = join(import.meta.dirname, '../../../test/data/layers');

export type Tool = 'docker' | 'podman' | 'umoci' | 'ctr';
export const TOOLS: readonly Tool[] = ['docker', 'podman', 'umoci', 'ctr'];

export interface OracleEntry {
  readonly path: string;
  readonly path_b64?: string;
  readonly type: string;
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
  readonly size?: number;
  readonly sha256?: string;
  readonly mtime: string;
  readonly target?: string;
  readonly target_b64?: string;
  readonly hardlink?: number;
  readonly dev?: string;
  readonly xattrs?: Readonly<Record<string, string>>;
  readonly absent?: boolean;
  readonly summary?: boolean;
  readonly entries?: number;
  readonly sha256_of_tree?: string;
}

interface OracleLayer {
  readonly deflated?: string;
  readonly mediaType: string;
  readonly diffID?: string;
  readonly digest_declared?: string;
  readonly size_declared?: number;
}

export interface OracleCase {
  readonly id: string;
  readonly what: string;
  readonly layers: readonly OracleLayer[];
  readonly extra_diffIDs?: readonly string[];
  readonly tree?: readonly OracleEntry[];
  readonly tools: Readonly<
    Record<
      Tool,
      {
        readonly ok: boolean;
        readonly diff?: readonly OracleEntry[];
        readonly root?: Pick<OracleEntry, 'mode' | 'uid' | 'gid'>;
      }
    >
  >;
  readonly agree: boolean;
}

export function oracleCases(): readonly OracleCase[] {
  const lines = readFileSync(join(DATA, 'cases.jsonl'), 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as OracleCase);
}

/** What the tool made of the case; undefined where it refused. */
export function treeOf(one: OracleCase, tool: Tool): readonly OracleEntry[] | undefined {
  const { ok, diff } = one.tools[tool];
  if (!ok) return undefined;
  const entries = new Map((one.tree ?? []).map((entry) => [bytesOf(entry), entry]));
  for (const entry of diff ?? []) {
    if (entry.absent === true) entries.delete(bytesOf(entry));
    else entries.set(bytesOf(entry), entry);
  }
  return [...entries.values()].filter((entry) => entry.type !== 'listed-but-absent');
}

/** The path as a byte string. */
export function bytesOf(entry: Pick<OracleEntry, 'path' | 'path_b64'>): string {
  const bytes =
    entry.path_b64 === undefined ? Buffer.from(entry.path) : Buffer.from(entry.path_b64, 'base64');
  return bytes.toString('latin1');
}

function blobOf(one: OracleCase, layer: OracleLayer): Buffer {
  if (layer.deflated !== undefined) return inflateSync(Buffer.from(layer.deflated, 'base64'));
  if (one.id === 'gzip-bomb') return bomb();
  if (one.id === 'entries-50000') return manyEntries();
  throw new Error(`${one.id} has no bytes, and nobody makes them`);
}

/** 200 MB of zeros in 195 kB: more than a thousand to one. */
function bomb(): Buffer {
  const size = 200_000_000;
  const part = 20_000_000;
  const sized = rawHeader({
    0: 'bomb',
    124: size.toString(8).padStart(11, '0'),
    136: (1_524_019_200).toString(8).padStart(11, '0'),
  });
  const zeros = gzipSync(Buffer.alloc(part), { level: 9 });
  const end = gzipSync(Buffer.concat([padding(size), endOfArchive()]));
  return Buffer.concat([gzipSync(sized), ...Array.from({ length: size / part }, () => zeros), end]);
}

function manyEntries(): Buffer {
  const mtime = { seconds: 1_524_105_600, nanos: 0 };
  const names = Array.from(
    { length: 50_000 },
    (_, i) => `d${String(i % 50).padStart(2, '0')}/f${String(i).padStart(5, '0')}`,
  );
  return gzipSync(tarOf(names.map((path) => ({ path, mtime }))));
}

/** The image of a case as a registry serves it that hands out exactly these bytes, true or not. */
export function oracleRegistry(one: OracleCase): {
  readonly registry: RegistryClient;
  readonly reference: string;
} {
  const blobs = new Map<string, Uint8Array>();
  const layers = one.layers.map((layer) => {
    const bytes = blobOf(one, layer);
    const digest = layer.digest_declared ?? digestOf(bytes);
    blobs.set(digest, bytes);
    return { mediaType: layer.mediaType, digest, size: layer.size_declared ?? bytes.length };
  });
  const diffIds = one.layers.flatMap((layer) => (layer.diffID == null ? [] : [layer.diffID]));
  const config = json({
    architecture: 'amd64',
    os: 'linux',
    config: {},
    rootfs: { type: 'layers', diff_ids: [...diffIds, ...(one.extra_diffIDs ?? [])] },
  });
  blobs.set(digestOf(config), config);
  const mediaType = 'application/vnd.oci.image.manifest.v1+json';
  const manifest = json({
    schemaVersion: 2,
    mediaType,
    config: {
      mediaType: 'application/vnd.oci.image.config.v1+json',
      digest: digestOf(config),
      size: config.length,
    },
    layers,
  });
  const descriptor: Descriptor = { mediaType, digest: digestOf(manifest), size: manifest.length };
  return { registry: serving(blobs, { descriptor, bytes: manifest }), reference: 'localhost/oracle:1' };
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function serving(blobs: ReadonlyMap<string, Uint8Array>, manifest: ManifestBytes): RegistryClient {
  const no = async (): Promise<never> => {
    throw new Error('this registry only gives');
  };
  async function* from(digest: string, offset: number): AsyncGenerator<Uint8Array> {
    const bytes = (blobs.get(digest) as Uint8Array).subarray(offset);
    for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
  }
  return {
    getManifest: async () => manifest,
    headManifest: async () => manifest.descriptor,
    getBlob: async (_reference, blob, offset) => from(blob.digest, offset),
    hasBlob: async (_reference, digest) => blobs.has(digest),
    listTags: async () => [],
    putManifest: no,
    deleteManifest: no,
    putBlob: no,
    async [Symbol.asyncDispose]() {},
  };
}
