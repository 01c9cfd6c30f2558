import { readFileSync } from 'node:fs';
import { unfit } from '../../../src/oci/layer/erofs/errors.ts';
import { openErofsSink } from '../../../src/oci/layer/erofs/sink.ts';
import { type LowerFile, NotErofs, unpackLayer } from '../../../src/oci/layer/index.ts';
import { DEFAULT_LIMITS } from '../../../src/oci/layer/limits.ts';
import { mutateBytes } from '../mutate.ts';
import type { Target } from '../types.ts';
import { line, readImage, withPath } from './erofs-tree.ts';
import { fsckErofs, type Image } from './fsck-erofs.ts';
import { layerSeeds } from './layer-seeds.ts';
import { makeLayer } from './layer-tree.ts';
import { Recorder } from './recorder.ts';
import { mutatePax, mutateTar } from './tar-bytes.ts';

/** A sparse file of a few bytes may ask for any number of zeros. */
const LIMITS = { ...DEFAULT_LIMITS, maxBytes: 1 << 20 };
const signal = new AbortController().signal;

/** Every second name is a file of the layers below. */
async function lower(path: string): Promise<LowerFile | undefined> {
  if (path.length % 2 === 1) return undefined;
  const entry = {
    path,
    type: path.length % 6 === 0 ? 'directory' : 'file',
    mode: 0o600,
    uid: 3,
    gid: 4,
  } as const;
  const rest = { size: 5, mtime: { seconds: 9, nanos: 9 }, linkPath: '', devMajor: 0, devMinor: 0 };
  async function* body(): AsyncGenerator<Buffer> {
    yield Buffer.from('below');
  }
  return { path, entry: { ...entry, ...rest }, body };
}

async function parse(bytes: Buffer): Promise<Image> {
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += 4097) yield bytes.subarray(at, at + 4097);
  }
  return await withPath(async (path) => {
    const sink = new Recorder(await openErofsSink(path));
    await unpackLayer(pieces(), sink, { map: undefined, lower, limits: LIMITS, signal }).catch((error) => {
      // Such a layer becomes a folder.
      throw error instanceof NotErofs ? unfit(error.because) : error;
    });
    const found = await readImage(path, Number.POSITIVE_INFINITY);
    return { bytes: readFileSync(path), told: sink.told, found };
  });
}

/** Lines of what the image holds; names of one file carry the first of them. */
function canonical({ found }: Image): string {
  const first = new Map<number, string>();
  for (const path of found.map((one) => one.path).sort()) {
    const { nid } = found.find((one) => one.path === path) as { readonly nid: number };
    if (!first.has(nid)) first.set(nid, path);
  }
  return found
    .map(({ entry, sha, nid }) => `${line(entry, sha)} ${first.get(nid)}`)
    .sort()
    .join('\n');
}

function judge(image: Image): string | undefined {
  const own = image.told
    .map(({ entry, sha, first }) => `${line(entry, sha)} ${first}`)
    .sort()
    .join('\n');
  const found = canonical(image);
  if (found === own) return undefined;
  const lines = own.split('\n');
  const at = found.split('\n').findIndex((one, index) => one !== lines[index]);
  return `the image has ${found.split('\n')[at]} where the layer has ${lines[at]}`;
}

export const target: Target<Image> = {
  name: 'erofs-image',
  judgedBy: 'the tree that was written into the tar; what our reader finds, entry by entry',
  batch: 16,
  sources: {
    'src/oci/layer/check.ts': 'all',
    'src/oci/layer/tree.ts': 'all',
    'src/oci/layer/erofs/sink.ts': ['ErofsSink', 'makeInode', 'stamp', 'describe'],
    'src/oci/layer/erofs/metadata.ts': 'all',
    'src/oci/layer/erofs/tree.ts': 'all',
    'src/oci/layer/erofs/block-writer.ts': 'all',
    'src/oci/layer/erofs/format.ts': [
      'encodeFirstBlock',
      'encodeInode',
      'encodeDevice',
      'layDirents',
      'encodeDirents',
      'xattrsSize',
      'encodeXattrs',
      'splitName',
    ],
  },
  planted: {
    file: 'src/oci/layer/erofs/metadata.ts',
    from: '(slot % BLOCK) + together > BLOCK ?',
    to: '(slot % BLOCK) + together > BLOCK + INODE ?',
  },
  make: makeLayer,
  seeds: layerSeeds,
  mutate: (bytes, random, other) =>
    random.chance(0.2)
      ? mutatePax(bytes, random)
      : random.chance(0.85)
        ? mutateTar(bytes, random)
        : mutateBytes(bytes, random, other),
  parse,
  canonical,
  judge,
  peer: fsckErofs,
};
