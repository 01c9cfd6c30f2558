import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { lstat, open, readFile, readlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openBeneath } from '../../kernel/system/index.ts';
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

/** One layer as it can be looked into, by paths whose parents are directories of that very layer. */
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
  return {
    async kind(path) {
      try {
        const stat = await lstat(Buffer.concat([Buffer.from(`${root}/`), Buffer.from(path, 'latin1')]));
        if (stat.isDirectory()) return 'directory';
        if (stat.isSymbolicLink()) return 'symlink';
        return stat.isCharacterDevice() && stat.rdev === 0 ? 'gone' : 'other';
      } catch {
        return 'absent';
      }
    },
    async target(path) {
      await using parent = await openParent(root, path);
      const link = Buffer.concat([Buffer.from(`${parent.path}/`), Buffer.from(parent.name, 'latin1')]);
      return (await readlink(link, { encoding: 'latin1' })) as string;
    },
    async *read(path) {
      await using parent = await openParent(root, path);
      yield* readOne(parent.path, parent.name);
    },
  };
}

interface Parent extends AsyncDisposable {
  /** The folder itself, wherever links may lead by now; good for other programs too. */
  readonly path: string;
  readonly name: ByteString;
}

/** A path that a link stands in would lead out of the layer, and the reader may be root: so none is followed. */
async function openParent(root: string, path: ByteString): Promise<Parent> {
  const slash = path.lastIndexOf('/');
  const flags = constants.O_RDONLY | constants.O_DIRECTORY;
  const handle =
    slash === -1
      ? await open(root, flags)
      : await openBeneath(root, Buffer.from(path.slice(0, slash), 'latin1'), flags);
  return {
    path: `/proc/${process.pid}/fd/${handle.fd}`,
    name: path.slice(slash + 1),
    [Symbol.asyncDispose]: () => handle.close(),
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

/** What stands at a path: its kind, the layer it comes from, and all layers that have a part of the directory. */
interface Merged {
  readonly kind: Kind;
  readonly view: LayerView;
  readonly views: readonly LayerView[];
}

/**
 * A name in a directory that `views` make up together, topmost first: each has the directory itself, so that a link
 * or file of one layer never stands for a directory of another. What is no directory hides the layers below it.
 */
async function merge(views: readonly LayerView[], path: ByteString): Promise<Merged | undefined> {
  const directories: LayerView[] = [];
  for (const view of views) {
    const kind = await view.kind(path);
    if (kind === 'absent') continue;
    if (kind === 'directory') directories.push(view);
    else if (directories.length === 0) return kind === 'gone' ? undefined : { kind, view, views: [] };
    if (kind !== 'directory' || (await view.opaque).has(path)) break;
  }
  const view = directories[0];
  return view === undefined ? undefined : { kind: 'directory', view, views: directories };
}

async function rootViews(lowers: readonly Lower[]): Promise<readonly LayerView[]> {
  const fromTop = lowers.map(viewOf).toReversed();
  for (const [index, view] of fromTop.entries())
    if ((await view.opaque).has('')) return fromTop.slice(0, index + 1);
  return fromTop;
}

/** Looks names up in layers as overlayfs would merge them, without leaving them: links are resolved inside. */
export function lowerFinder(
  lowers: readonly Lower[],
  map: IdMap | undefined,
): (path: ByteString) => Promise<LowerFile | undefined> {
  let root: Promise<readonly LayerView[]> | undefined;

  return async (path) => {
    root ??= rootViews(lowers);
    const top = { name: '', views: await root };
    let rest = path.split('/');
    let done = [top];
    for (let links = 0; rest.length > 0; ) {
      const [part, ...after] = rest as [string, ...string[]];
      rest = after;
      if (part === '' || part === '.') continue;
      if (part === '..') {
        if (done.length > 1) done.pop();
        continue;
      }
      const { views } = done.at(-1) ?? top;
      const here = [...done.slice(1).map(({ name }) => name), part].join('/');
      const found = await merge(views, here);
      if (found === undefined) return undefined;
      if (rest.length === 0) return await fileFrom(found.view, here, map);
      if (found.kind === 'directory') done.push({ name: part, views: found.views });
      else if (found.kind !== 'symlink' || ++links > MAX_LINKS) return undefined;
      else {
        const target = await found.view.target(here);
        if (target.startsWith('/')) done = [top];
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
async function* readOne(folder: string, name: ByteString): ReturnType<typeof readTar> {
  if (!(await hasGnuTar())) {
    yield* readFileByNode(folder, name);
    return;
  }
  const args = ['--create', '--file=-', '--format=posix', '--no-recursion', '--xattrs', '--xattrs-include=*'];
  const child = spawn('tar', [...args, '--null', '--no-unquote', '--directory', folder, '--files-from=-'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: tarEnvironment(),
  });
  child.on('error', () => child.stdout.destroy());
  child.stdin.on('error', () => {});
  child.stdin.end(Buffer.concat([Buffer.from('./'), Buffer.from(name, 'latin1'), Buffer.from([0])]));
  try {
    yield* readTar(child.stdout);
  } finally {
    child.kill('SIGKILL');
  }
}
