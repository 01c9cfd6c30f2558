import { spawn } from 'node:child_process';
import { lstat, readFile, readlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  type ByteString,
  ErofsReader,
  hasGnuTar,
  type LowerFile,
  readFileByNode,
  readTar,
  type TarEntry,
  tarEnvironment,
  unshiftXattrs,
} from '../layer/index.ts';
import type { IdMap, Lower } from '../port.ts';
import { type LayerRecord, RECORD } from './layers.ts';

const MAX_LINKS = 40;

type Kind = 'absent' | 'gone' | 'directory' | 'symlink' | 'other';

/** One layer as it can be looked into; paths go through real directories only. */
interface LayerView {
  kind(path: ByteString): Promise<Kind>;
  target(path: ByteString): Promise<ByteString>;
  /** Its entry and its body, as in a tar. */
  read(path: ByteString): AsyncIterable<{ readonly entry: TarEntry; readonly body: AsyncIterable<Buffer> }>;
  /** Directories that hide what is below. */
  readonly opaque: Promise<ReadonlySet<string>>;
}

function viewOf(lower: Lower): LayerView {
  const view = lower.kind === 'folder' ? folderView(lower.path) : imageView(lower.path);
  let opaque: Promise<ReadonlySet<string>> | undefined;
  return {
    ...view,
    get opaque() {
      opaque ??= readFile(join(dirname(lower.path), RECORD), 'utf8').then(
        (text) => new Set((JSON.parse(text) as LayerRecord).opaque),
      );
      return opaque;
    },
  };
}

function folderView(root: string): Omit<LayerView, 'opaque'> {
  const onDisk = (path: ByteString): Buffer =>
    Buffer.concat([Buffer.from(`${root}/`), Buffer.from(path, 'latin1')]);
  return {
    async kind(path) {
      try {
        const stat = await lstat(onDisk(path));
        if (stat.isDirectory()) return 'directory';
        if (stat.isSymbolicLink()) return 'symlink';
        return stat.isCharacterDevice() && stat.rdev === 0 ? 'gone' : 'other';
      } catch {
        return 'absent';
      }
    },
    target: async (path) => (await readlink(onDisk(path), { encoding: 'latin1' })) as string,
    read: (path) => readOne(root, path),
  };
}

/** Opened anew each time: it is asked for a few files, and nobody has to close it. */
function imageView(image: string): Omit<LayerView, 'opaque'> {
  return {
    async kind(path) {
      await using reader = await ErofsReader.open(image);
      const inode = await reader.find(path);
      if (inode === undefined) return 'absent';
      if (inode.kind === 'directory' || inode.kind === 'symlink') return inode.kind;
      return inode.kind === 'char' && inode.start === 0 ? 'gone' : 'other';
    },
    async target(path) {
      await using reader = await ErofsReader.open(image);
      const inode = await reader.find(path);
      return inode === undefined ? '' : await reader.target(inode);
    },
    async *read(path) {
      await using reader = await ErofsReader.open(image);
      const inode = await reader.find(path);
      if (inode !== undefined) yield { entry: await reader.entry(inode, path), body: reader.body(inode) };
    },
  };
}

/** Looks names up in layers as overlayfs would merge them, without leaving them: links are resolved inside. */
export function lowerFinder(
  lowers: readonly Lower[],
  map: IdMap | undefined,
): (path: ByteString) => Promise<LowerFile | undefined> {
  const fromTop = lowers.map(viewOf).toReversed();

  /** The topmost layer that has the path, unless something above hides it. */
  async function find(
    path: ByteString,
  ): Promise<{ readonly view: LayerView; readonly kind: Kind } | undefined> {
    for (const view of fromTop) {
      const kind = await view.kind(path);
      if (kind === 'gone') return undefined;
      if (kind !== 'absent') return { view, kind };
      if (await hides(view, path)) return undefined;
    }
    return undefined;
  }

  /** A parent that is deleted, opaque or no directory in this layer hides the path in those below. */
  async function hides(view: LayerView, path: ByteString): Promise<boolean> {
    const closed = await view.opaque;
    if (closed.has('')) return true;
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
      const parent = path.slice(0, slash);
      const kind = await view.kind(parent);
      if (kind === 'absent') return false;
      if (kind !== 'directory' || closed.has(parent)) return true;
    }
    return false;
  }

  return async (path) => {
    let rest = path.split('/');
    let done: string[] = [];
    for (let links = 0; rest.length > 0; ) {
      const [part, ...after] = rest as [string, ...string[]];
      rest = after;
      if (part === '' || part === '.') continue;
      if (part === '..') {
        done.pop();
        continue;
      }
      const here = [...done, part].join('/');
      const found = await find(here);
      if (found === undefined) return undefined;
      if (rest.length === 0) return await fileFrom(found.view, here, map);
      if (found.kind === 'directory') done.push(part);
      else if (found.kind !== 'symlink' || ++links > MAX_LINKS) return undefined;
      else {
        const target = await found.view.target(here);
        if (target.startsWith('/')) done = [];
        rest = [...target.split('/'), ...rest];
      }
    }
    return undefined;
  };
}

async function fileFrom(
  view: LayerView,
  path: ByteString,
  map: IdMap | undefined,
): Promise<LowerFile | undefined> {
  for await (const { entry } of view.read(path)) {
    const base = map?.hostBase ?? 0;
    const unshifted: TarEntry = {
      ...entry,
      path,
      uid: entry.uid - base,
      gid: entry.gid - base,
      ...(entry.xattrs === undefined ? {} : { xattrs: unshiftXattrs(entry.xattrs, map) }),
    };
    return { path, entry: unshifted, body: () => bodyOf(view, path) };
  }
  return undefined;
}

async function* bodyOf(view: LayerView, path: ByteString): AsyncGenerator<Buffer> {
  for await (const { body } of view.read(path)) yield* body;
}

/** Node cannot read extended attributes, GNU tar can. The name goes in by a file list, as it is bytes. */
async function* readOne(root: string, path: ByteString): ReturnType<typeof readTar> {
  if (!(await hasGnuTar())) {
    yield* readFileByNode(root, path);
    return;
  }
  const args = ['--create', '--file=-', '--format=posix', '--numeric-owner', '--no-recursion', '--xattrs'];
  const more = [
    '--xattrs-include=*',
    '--no-acls',
    '--no-selinux',
    '--null',
    '--no-unquote',
    '--verbatim-files-from',
  ];
  const child = spawn('tar', [...args, ...more, '--directory', root, '--files-from=-'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: tarEnvironment(),
  });
  child.on('error', () => child.stdout.destroy());
  child.stdin.on('error', () => {});
  child.stdin.end(Buffer.concat([Buffer.from('./'), Buffer.from(path, 'latin1'), Buffer.from([0])]));
  try {
    yield* readTar(child.stdout);
  } finally {
    child.kill('SIGKILL');
  }
}
