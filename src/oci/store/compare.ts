import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { isSkycapError } from '../../kernel/index.ts';
import {
  ACCESS_LIST,
  type ByteString,
  DEFAULT_LIST,
  ErofsReader,
  isCopyable,
  keepsAcls,
  type LayerSink,
  NeedsParents,
  packFolder,
  readTar,
  showPath,
  type TarEntry,
  unpackLayer,
} from '../layer/index.ts';
import type { IdMap, Lower } from '../port.ts';
import type { Digest } from '../types.ts';
import { lowerFinder } from './lower-file.ts';

/** What counts of one path. Times do not: file systems keep them with different precision. */
interface Facts {
  readonly entry: TarEntry;
  readonly content: string;
  /** Its kind, and what it holds. */
  readonly body: string;
  /** What an ordinary user's files do not have. */
  readonly meta: string;
  /** undefined where the file system may not have been able to keep them. */
  readonly attributes: string | undefined;
  readonly acls: string;
  /** Of a hard link: the path that it was made of. */
  readonly link?: ByteString;
}

type Tree = ReadonlyMap<ByteString, Facts>;

export interface CompareInput {
  /** The layer's blob, whole and right. */
  readonly blob: string;
  readonly diffId: Digest;
  /** The layer as it was unpacked. */
  readonly lower: Lower;
  readonly map: IdMap | undefined;
  /** The unpacked layers below, lowest first, where the layer links into them. */
  readonly parents: readonly Lower[] | undefined;
  readonly signal: AbortSignal;
  /** False: the folder has contents only; owners, modes, devices and attributes are in a model beside it. */
  readonly asRoot?: boolean;
}

/**
 * Compares an unpacked layer with its blob, entry by entry: names, kinds, modes, owners, contents, links, devices and
 * extended attributes.
 *
 * @returns what is wrong first, as the end of a sentence; undefined where they agree, or the blob itself cannot tell
 */
export async function layerDifference(input: CompareInput): Promise<string | undefined> {
  const wanted = await wantedTree(input);
  if (wanted === undefined) return undefined;
  const { asRoot = process.geteuid?.() === 0 } = input;
  const found = await foundTree(input.lower);
  const shown = input.lower.kind === 'erofs' || [...found.values()].some(({ acls }) => acls !== '');
  const withAcls = shown || (await keepsAcls(input.lower.path));
  return firstDifference(wanted, found, { asRoot, withAcls });
}

async function wantedTree(input: CompareInput): Promise<Tree | undefined> {
  const tree = new Map<ByteString, Facts>();
  const sink: LayerSink = {
    put: async (entry, next) => {
      const hash = createHash('sha256');
      if (entry.type === 'file')
        for (let part = await next(); part !== undefined; part = await next()) hash.update(part);
      tree.set(cleaned(entry.path), factsOf(entry, hash.digest('hex')));
    },
    restamp: async (entry) => {
      const path = fileOf(tree, cleaned(entry.path));
      const before = tree.get(path);
      if (before === undefined) return;
      const { type, size, linkPath } = before.entry;
      tree.set(path, factsOf({ ...entry, path, type, size, linkPath }, before.content));
    },
    finish: async () => {},
    abort: async () => {},
  };
  const blob = createReadStream(input.blob);
  const { map, signal, diffId } = input;
  const lower = input.parents === undefined ? undefined : lowerFinder(input.parents, map);
  try {
    await unpackLayer(blob, sink, { map, signal, diffId, lower });
    return tree;
  } catch (error) {
    // It was unpacked under other rules, or needs its parents and is compared with them.
    if (error instanceof NeedsParents || (isSkycapError(error) && error.code.startsWith('OCI_LAYER_')))
      return undefined;
    throw error;
  } finally {
    blob.destroy();
  }
}

async function foundTree({ kind, path }: Lower): Promise<Tree> {
  const tree = new Map<ByteString, Facts>();
  for await (const { entry, body } of kind === 'erofs'
    ? readImage(path)
    : readTar(packFolder(path, { root: true }))) {
    const hash = createHash('sha256');
    for await (const part of body) hash.update(part);
    tree.set(cleaned(entry.path), factsOf(entry, hash.digest('hex')));
  }
  return tree;
}

/** A layer that is one file, as an archive would have it, further names of a file as links. */
async function* readImage(path: string): ReturnType<typeof readTar> {
  await using reader = await ErofsReader.open(path);
  const names = new Map<number, ByteString>();
  const waiting = [{ folder: '', inode: await reader.root }];
  yield { entry: await reader.entry(await reader.root, '.'), body: NOTHING };
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const dirent of await reader.names(next.inode)) {
      const inode = await reader.child(dirent);
      const name = `${next.folder}${dirent.name}`;
      const entry = await reader.entry(inode, name);
      const first = inode.kind === 'directory' ? undefined : names.get(inode.nid);
      if (first === undefined) names.set(inode.nid, name);
      if (inode.kind === 'directory') waiting.push({ folder: `${name}/`, inode });
      if (first !== undefined) yield { entry: { ...entry, type: 'link', linkPath: first }, body: NOTHING };
      else yield { entry, body: inode.kind === 'file' ? reader.body(inode) : NOTHING };
    }
  }
}

const NOTHING: AsyncIterable<Buffer> = {
  async *[Symbol.asyncIterator]() {},
};

const ROOT = '';

function cleaned(path: ByteString): ByteString {
  const clean = path.replace(/^(\.\/)+/, '').replace(/\/+$/, '');
  return clean === '.' ? ROOT : clean;
}

const ACLS = [ACCESS_LIST, DEFAULT_LIST];
const COMPARED = /^(user\.|trusted\.|security\.capability$)/;

function factsOf(entry: TarEntry, content: string): Facts {
  if (entry.type === 'link')
    return { entry, content, body: '', meta: '', attributes: '', acls: '', link: cleaned(entry.linkPath) };
  const body =
    entry.type === 'symlink' ? entry.linkPath : entry.type === 'file' ? `${entry.size} ${content}` : '';
  const xattrs = [...(entry.xattrs ?? [])]
    .filter(([name]) => COMPARED.test(name))
    .map(([name, value]) => `${name}=${value.toString('hex')}`)
    .toSorted();
  const mode = entry.type === 'symlink' ? '' : entry.mode.toString(8);
  const owner = `${entry.uid}:${entry.gid}`;
  const device = `${entry.devMajor},${entry.devMinor}`;
  const meta = [mode, owner, device].join(' ');
  return {
    entry,
    content,
    body: `${entry.type} ${body}`,
    meta,
    attributes: isCopyable(entry.xattrs) ? xattrs.join(' ') : undefined,
    acls: ACLS.map((name) => entry.xattrs?.get(name)?.toString('hex') ?? '')
      .join(' ')
      .trim(),
  };
}

const IN_FOLDERS = ['file', 'symlink', 'directory'];

interface Scope {
  readonly asRoot: boolean;
  /** Whether the file system has kept access lists. */
  readonly withAcls: boolean;
}

function firstDifference(wanted: Tree, found: Tree, { asRoot, withAcls }: Scope): string | undefined {
  for (const [path, { entry }] of wanted) {
    if (!asRoot && !IN_FOLDERS.includes(entry.type)) continue;
    if (!found.has(path)) return `${showPath(path)} is gone`;
    const [one, other] = [factsAt(wanted, path), factsAt(found, path)];
    if (one?.body === other?.body && (!asRoot || areSame(one, other, withAcls))) continue;
    return path === ROOT ? 'its root folder has changed' : `${showPath(path)} has changed`;
  }
  if (!asRoot) return undefined;
  // A root that the layer does not name is the writer's.
  for (const path of found.keys())
    if (path !== ROOT && !wanted.has(path)) return `${showPath(path)} was added`;
  return groupsOf(wanted) === groupsOf(found) ? undefined : 'hard links have changed';
}

/** Which of its names comes first in an archive does not matter, so a link says what its file says. */
function fileOf(tree: Tree, path: ByteString): ByteString {
  let at = path;
  for (
    let next = tree.get(at)?.link;
    next !== undefined && tree.has(next) && next !== at;
    next = tree.get(at)?.link
  )
    at = next;
  return at;
}

function factsAt(tree: Tree, path: ByteString): Facts | undefined {
  return tree.get(fileOf(tree, path));
}

function areSame(wanted: Facts | undefined, found: Facts | undefined, withAcls: boolean): boolean {
  if (wanted?.meta !== found?.meta) return false;
  if (wanted?.attributes === undefined) return true;
  return wanted.attributes === found?.attributes && (!withAcls || wanted.acls === found.acls);
}

function groupsOf(tree: Tree): string {
  const groups = new Map<ByteString, ByteString[]>();
  for (const [path, { link }] of tree) {
    if (link === undefined) continue;
    const file = fileOf(tree, path);
    groups.set(file, [...(groups.get(file) ?? [file]), path]);
  }
  return JSON.stringify([...groups.values()].map((paths) => paths.toSorted()).toSorted());
}
