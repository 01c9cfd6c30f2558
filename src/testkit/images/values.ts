import { isSkycapError } from '../../kernel/index.ts';
import {
  decodeImage,
  type FileTree,
  type ImageLayer,
  type ImageValue,
  type LayerInput,
  mergeLayers,
  readTree,
} from '../../oci/image/index.ts';
import type { Digest } from '../../oci/index.ts';
import { compressLayer, packFiles, type VirtualFile } from '../../oci/layer/index.ts';
import { digestOf } from '../../oci/names/index.ts';

const { signal } = new AbortController();

export interface Made {
  readonly layer: ImageLayer;
  readonly input: LayerInput;
}

export async function made(files: readonly VirtualFile[]): Promise<Made> {
  return await fromTar(Buffer.concat([...packFiles(files)]));
}

export async function fromTar(tar: Uint8Array): Promise<Made> {
  const packed = compressLayer([tar], 'none');
  const chunks: Uint8Array[] = [];
  for await (const chunk of packed.bytes) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const diffId = packed.diffId() as Digest;
  async function* open(): AsyncGenerator<Uint8Array> {
    yield bytes;
  }
  return {
    layer: {
      descriptor: { mediaType: packed.mediaType, digest: digestOf(bytes), size: bytes.length },
      diffId,
    },
    input: { diffId, open },
  };
}

export function imageOf(layers: readonly ImageLayer[], more: Record<string, unknown> = {}): ImageValue {
  const config = {
    created: '2020-01-01T00:00:00Z',
    os: 'linux',
    architecture: 'amd64',
    config: { Env: ['PATH=/bin'], Cmd: ['sh'], 'x-odd': 1 },
    rootfs: { type: 'layers', diff_ids: layers.map((layer) => layer.diffId) },
    history: layers.map((_, at) => ({ created_by: `step ${at + 1}` })),
    'x-kept': { a: 1 },
    ...more,
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', digest: digestOf(''), size: 0 },
    layers: layers.map((layer) => layer.descriptor),
    annotations: { by: 'someone' },
    'x-unknown': true,
  };
  return decodeImage(Buffer.from(JSON.stringify(manifest)), Buffer.from(JSON.stringify(config)));
}

export async function treeOf(layers: readonly Made[], keepWhiteouts = false): Promise<FileTree> {
  return await readTree(
    layers.map(({ input }) => input),
    { signal, hash: true, keepWhiteouts },
  );
}

export async function merged(layers: readonly Made[], keepWhiteouts = false): Promise<Made> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of mergeLayers(
    layers.map(({ input }) => input),
    { signal, keepWhiteouts },
  ))
    chunks.push(chunk);
  return await fromTar(Buffer.concat(chunks));
}

export function codeOf(work: () => unknown): string {
  try {
    work();
    return 'done';
  } catch (error) {
    return isSkycapError(error) ? error.code : String(error);
  }
}
