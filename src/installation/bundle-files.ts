import { constants, createReadStream } from 'node:fs';
import { lstat, open, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../bundle/index.ts';
import { encodeEntry, endOfArchive, padding, type TarEntry, toBytes } from '../oci/layer/index.ts';
import { ignoreRules } from './ignore.ts';

const MAX_IGNORE_BYTES = 1 << 20;
/** What `skycap lock` has beside `porter.lock` for a moment, and leaves there where it is killed. */
const LOCK_IN_THE_MAKING = '.porter.lock.*';

export interface BundleFile {
  /** Relative to the bundle's folder, with `/`. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink';
  readonly mode: number;
  readonly sizeBytes: number;
  readonly mtimeMs: number;
  readonly linkTarget: string;
}

/**
 * The files of a bundle: everything in the author's folder but `.git` and what `.porterignore` and `.dockerignore`
 * name; other kinds than files, folders and links are left out. Sorted by path, so that equal folders are equal.
 */
export async function listBundleFiles(folder: string): Promise<readonly BundleFile[]> {
  const ignore = ignoreRules().add(['.git', '.porterignore', '.dockerignore', LOCK_IN_THE_MAKING]);
  for (const name of ['.porterignore', '.dockerignore']) {
    const text = await ignoreFile(join(folder, name));
    if (text !== undefined) ignore.add(text);
  }
  const keeps = ignore.createFilter();
  const found: BundleFile[] = [];
  const walk = async (relative: string): Promise<void> => {
    for (const name of await namesIn(folder, relative, keeps)) {
      const path = relative === '' ? name : `${relative}/${name}`;
      const info = await unlessGone(lstat(join(folder, path)));
      if (info === undefined) continue;
      const type = info.isDirectory()
        ? 'directory'
        : info.isSymbolicLink()
          ? 'symlink'
          : info.isFile()
            ? 'file'
            : undefined;
      if (type === undefined) continue;
      // A folder that is ignored may hold files that a later `!` brings back: look inside all the same, but not in .git.
      if (path !== '.git' && type === 'directory') await walk(path);
      if (!keeps(path)) continue;
      const linkTarget = type === 'symlink' ? await readlink(join(folder, path)) : '';
      found.push({
        path,
        type,
        mode: info.mode & 0o7777,
        sizeBytes: type === 'file' ? info.size : 0,
        mtimeMs: Math.floor(info.mtimeMs),
        linkTarget,
      });
    }
  };
  await walk('');
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Editors and other commands make files for a moment; undefined where one has gone meanwhile. */
async function unlessGone<T>(found: Promise<T>): Promise<T | undefined> {
  return await found.catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
}

/** @throws BUNDLE_UNREADABLE for a name that is no UTF-8, unless it is ignored: digests, locks and records are text */
async function namesIn(
  folder: string,
  relative: string,
  keeps: (path: string) => boolean,
): Promise<readonly string[]> {
  const names: string[] = [];
  const found = readdir(join(folder, relative), { encoding: 'buffer' });
  for (const bytes of relative === '' ? await found : ((await unlessGone(found)) ?? [])) {
    const name = bytes.toString('utf8');
    const path = relative === '' ? name : `${relative}/${name}`;
    if (Buffer.from(name).equals(bytes)) names.push(name);
    else if (keeps(path)) {
      throw bundleError('BUNDLE_UNREADABLE', `the name of ${path} in the bundle's folder is no UTF-8`, {
        hint: 'rename it, or name it in .porterignore, with * for what cannot be typed',
        place: { file: join(folder, relative) },
      });
    }
  }
  return names.sort();
}

/** The file is whoever's the bundle is: a pipe or device would never end. @throws BUNDLE_UNREADABLE */
async function ignoreFile(path: string): Promise<string | undefined> {
  try {
    await using handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = await handle.stat();
    if (!status.isFile()) throw Object.assign(new Error(), { code: 'it is no regular file' });
    if (status.size > MAX_IGNORE_BYTES) throw Object.assign(new Error(), { code: 'it is larger than 1 MiB' });
    return await handle.readFile('utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw bundleError('BUNDLE_UNREADABLE', `${path} cannot be read: ${code ?? 'unknown reason'}`, {
      hint: 'mend or remove it',
      place: { file: path },
      cause,
    });
  }
}

/** The files as a tar stream for the workspace. */
export async function* bundleArchive(
  folder: string,
  files: readonly BundleFile[],
): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    yield encodeEntry(entryOf(file));
    if (file.type !== 'file') continue;
    let left = file.sizeBytes;
    if (left > 0) {
      for await (const chunk of createReadStream(join(folder, file.path), { end: file.sizeBytes - 1 })) {
        left -= (chunk as Buffer).byteLength;
        yield chunk as Buffer;
      }
    }
    // A file that shrank meanwhile must not shift what comes after it.
    if (left > 0) yield Buffer.alloc(left);
    yield padding(file.sizeBytes);
  }
  yield endOfArchive();
}

function entryOf(file: BundleFile): TarEntry {
  return {
    path: toBytes(file.path),
    type: file.type,
    mode: file.mode,
    uid: 0,
    gid: 0,
    size: file.sizeBytes,
    mtime: { seconds: Math.floor(file.mtimeMs / 1000), nanos: 0 },
    linkPath: toBytes(file.linkTarget),
    devMajor: 0,
    devMinor: 0,
  };
}
