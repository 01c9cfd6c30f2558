import { spawn } from 'node:child_process';
import { lstat, readFile, readlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type ByteString, type LowerFile, readTar, type TarEntry, tarEnvironment } from '../layer/index.ts';
import type { IdMap, Lower } from '../port.ts';
import { type LayerRecord, RECORD } from './layers.ts';

const MAX_LINKS = 40;

function onDisk(root: string, path: ByteString): Buffer {
  return Buffer.concat([Buffer.from(`${root}/`), Buffer.from(path, 'latin1')]);
}

type Kind = 'absent' | 'gone' | 'directory' | 'symlink' | 'other';

async function kindIn(root: string, path: ByteString): Promise<Kind> {
  try {
    const stat = await lstat(onDisk(root, path));
    if (stat.isDirectory()) return 'directory';
    if (stat.isSymbolicLink()) return 'symlink';
    return stat.isCharacterDevice() && stat.rdev === 0 ? 'gone' : 'other';
  } catch {
    return 'absent';
  }
}

/** Looks names up in layers as overlayfs would merge them, without leaving them: links are resolved inside. */
export function lowerFinder(
  lowers: readonly Lower[],
  map: IdMap | undefined,
): (path: ByteString) => Promise<LowerFile | undefined> {
  const fromTop = lowers.map((lower) => lower.path).toReversed();
  const opaque = new Map<string, Promise<ReadonlySet<string>>>();
  const opaqueOf = (root: string): Promise<ReadonlySet<string>> => {
    let known = opaque.get(root);
    if (known === undefined) {
      known = readFile(join(dirname(root), RECORD), 'utf8').then(
        (text) => new Set((JSON.parse(text) as LayerRecord).opaque),
      );
      opaque.set(root, known);
    }
    return known;
  };

  /** The topmost layer that has the path, unless something above hides it. */
  async function find(path: ByteString): Promise<{ readonly root: string; readonly kind: Kind } | undefined> {
    for (const root of fromTop) {
      const kind = await kindIn(root, path);
      if (kind === 'gone') return undefined;
      if (kind !== 'absent') return { root, kind };
      if (await hides(root, path)) return undefined;
    }
    return undefined;
  }

  /** A parent that is deleted, opaque or no directory in this layer hides the path in those below. */
  async function hides(root: string, path: ByteString): Promise<boolean> {
    const closed = await opaqueOf(root);
    if (closed.has('')) return true;
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
      const parent = path.slice(0, slash);
      const kind = await kindIn(root, parent);
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
      if (rest.length === 0) return found.kind === 'directory' ? undefined : fileFrom(found.root, here, map);
      if (found.kind === 'directory') done.push(part);
      else if (found.kind !== 'symlink' || ++links > MAX_LINKS) return undefined;
      else {
        const target = (await readlink(onDisk(found.root, here), { encoding: 'latin1' })) as string;
        if (target.startsWith('/')) done = [];
        rest = [...target.split('/'), ...rest];
      }
    }
    return undefined;
  };
}

async function fileFrom(
  root: string,
  path: ByteString,
  map: IdMap | undefined,
): Promise<LowerFile | undefined> {
  for await (const { entry } of readOne(root, path)) {
    const base = map?.hostBase ?? 0;
    const unshifted: TarEntry = { ...entry, path, uid: entry.uid - base, gid: entry.gid - base };
    return { path, entry: unshifted, body: () => bodyOf(root, path) };
  }
  return undefined;
}

async function* bodyOf(root: string, path: ByteString): AsyncGenerator<Buffer> {
  for await (const { body } of readOne(root, path)) yield* body;
}

/** GNU tar is the one that can read extended attributes. The name goes in by a file list, as it is bytes. */
async function* readOne(root: string, path: ByteString): ReturnType<typeof readTar> {
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
