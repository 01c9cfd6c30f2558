import { type ByteString, encodeEntry, endOfArchive, padding, type TarEntry } from '../layer/index.ts';
import {
  checkedEntries,
  type FileNode,
  type FileTree,
  isWhiteout,
  type LayerInput,
  readTree,
} from './file-tree.ts';

export interface MergeOptions {
  readonly signal: AbortSignal;
  /** True where other layers stay below: deletions are kept, for they hide what is there. */
  readonly keepWhiteouts: boolean;
}

const WHITEOUT = '.wh.';
const OPAQUE = '.wh..wh..opq';

/**
 * One layer tar with what these layers come to. Equal layers give equal bytes: directories first, then files in the
 * order of the layers, every hard link behind the file that carries the bytes.
 *
 * The layers are read twice, first for what stays, then for the bytes of it, so that nothing has to be kept but one
 * entry a path.
 *
 * @param layers Lowest first.
 * @throws what `readTree` throws
 */
export async function* mergeLayers(
  layers: readonly LayerInput[],
  options: MergeOptions,
): AsyncGenerator<Buffer> {
  const tree = await readTree(layers, options);
  const names = namesOf(tree);
  for (const [path, node] of tree) {
    if (node.entry.type === 'directory') yield* directory(path, node);
    else if (isWhiteout(node.entry)) yield encodeEntry(marker(beside(path, `${WHITEOUT}${leafOf(path)}`)));
  }
  for (const [layer, input] of layers.entries()) {
    const wanted = names.get(layer);
    if (wanted === undefined) continue;
    for await (const { ordinal, body } of checkedEntries(input, options, (path) => lowerOf(tree, path))) {
      const paths = wanted.get(ordinal);
      if (paths === undefined) continue;
      yield* file(paths, tree.get(paths[0] as ByteString) as FileNode, body);
    }
  }
  yield endOfArchive();
}

/** The paths of each file that is no directory, by layer and ordinal. */
function namesOf(tree: FileTree): ReadonlyMap<number, ReadonlyMap<number, readonly ByteString[]>> {
  const names = new Map<number, Map<number, ByteString[]>>();
  for (const [path, { entry, layer, ordinal }] of tree) {
    if (entry.type === 'directory' || isWhiteout(entry)) continue;
    const files = names.get(layer) ?? new Map<number, ByteString[]>();
    names.set(layer, files);
    files.set(ordinal, [...(files.get(ordinal) ?? []), path]);
  }
  return names;
}

function* directory(path: ByteString, node: FileNode): Generator<Buffer> {
  if (path !== '') yield encodeEntry({ ...node.entry, path });
  if (node.opaque === true) yield encodeEntry(marker(path === '' ? OPAQUE : `${path}/${OPAQUE}`));
}

async function* file(
  paths: readonly ByteString[],
  node: FileNode,
  body: () => AsyncIterable<Buffer>,
): AsyncGenerator<Buffer> {
  const [first, ...links] = paths as [ByteString, ...ByteString[]];
  yield encodeEntry({ ...node.entry, path: first });
  if (node.entry.type === 'file') {
    yield* body();
    yield padding(node.entry.size);
  }
  for (const path of links) {
    const { xattrs: _first, ...entry } = node.entry;
    yield encodeEntry({ ...entry, path, type: 'link', size: 0, linkPath: first });
  }
}

/** The second reading asks for the lower file of a hard link only to go on; its bytes come from where it stands. */
function lowerOf(
  tree: FileTree,
  path: ByteString,
): { readonly path: ByteString; readonly node: FileNode } | undefined {
  const node = tree.get(path);
  if (node !== undefined && node.entry.type !== 'directory') return { path, node };
  return { path, node: { entry: marker(path), layer: -1, ordinal: -1 } };
}

function marker(path: ByteString): TarEntry {
  return {
    path,
    type: 'file',
    mode: 0o644,
    uid: 0,
    gid: 0,
    size: 0,
    mtime: { seconds: 0, nanos: 0 },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
}

function leafOf(path: ByteString): ByteString {
  return path.slice(path.lastIndexOf('/') + 1);
}

function beside(path: ByteString, name: ByteString): ByteString {
  return path.slice(0, path.lastIndexOf('/') + 1) + name;
}
