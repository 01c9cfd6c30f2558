import type { ByteString, TarEntry } from '../layer/index.ts';
import { type FileNode, type FileTree, shownPath } from './file-tree.ts';

/** What differs of a file that both images have. */
export type FileAspect =
  | 'type'
  | 'content'
  | 'target'
  | 'device'
  | 'mode'
  | 'owner'
  | 'xattrs'
  | 'time'
  | 'links';

export interface FileChange {
  /** With a leading slash. */
  readonly path: string;
  readonly kind: 'added' | 'removed' | 'changed';
  readonly type: TarEntry['type'];
  /** Empty unless `changed`. */
  readonly aspects: readonly FileAspect[];
  /** Bytes of a regular file before and after. */
  readonly before?: number;
  readonly after?: number;
}

export interface DiffOptions {
  /** Also tell of modification times. */
  readonly times?: boolean;
}

/**
 * What leads from the files of one image to those of another, sorted by path. Both trees must have been read with
 * the digests of the contents. Two trees are equal in it exactly if nothing comes out with `times`.
 */
export function diffTrees(
  before: FileTree,
  after: FileTree,
  options: DiffOptions = {},
): readonly FileChange[] {
  const changes: FileChange[] = [];
  const [linksBefore, linksAfter] = [linkGroups(before), linkGroups(after)];
  for (const path of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const old = before.get(path);
    const now = after.get(path);
    if (old === undefined && now !== undefined) changes.push(only('added', path, now));
    if (old !== undefined && now === undefined) changes.push(only('removed', path, old));
    if (old === undefined || now === undefined) continue;
    const links = linksBefore.get(path) !== linksAfter.get(path);
    const all = [...aspectsOf(old, now), ...(links ? (['links'] as const) : [])];
    const aspects = options.times === true ? all : all.filter((aspect) => aspect !== 'time');
    if (aspects.length === 0) continue;
    changes.push({
      path: shownPath(path),
      kind: 'changed',
      type: now.entry.type,
      aspects,
      ...(old.entry.type === 'file' ? { before: old.entry.size } : {}),
      ...(now.entry.type === 'file' ? { after: now.entry.size } : {}),
    });
  }
  return changes;
}

function only(kind: 'added' | 'removed', path: ByteString, { entry }: FileNode): FileChange {
  const size = entry.type === 'file' ? { [kind === 'added' ? 'after' : 'before']: entry.size } : {};
  return { path: shownPath(path), kind, type: entry.type, aspects: [], ...size };
}

function aspectsOf(old: FileNode, now: FileNode): readonly FileAspect[] {
  const [a, b] = [old.entry, now.entry];
  if (a.type !== b.type) return ['type'];
  const found: FileAspect[] = [];
  if (a.type === 'file' && (a.size !== b.size || old.content !== now.content)) found.push('content');
  if (a.linkPath !== b.linkPath) found.push('target');
  if (a.devMajor !== b.devMajor || a.devMinor !== b.devMinor) found.push('device');
  if (a.mode !== b.mode) found.push('mode');
  if (a.uid !== b.uid || a.gid !== b.gid) found.push('owner');
  if (!sameXattrs(a.xattrs, b.xattrs)) found.push('xattrs');
  if (a.mtime.seconds !== b.mtime.seconds || a.mtime.nanos !== b.mtime.nanos) found.push('time');
  return found;
}

function sameXattrs(a: TarEntry['xattrs'], b: TarEntry['xattrs']): boolean {
  if ((a?.size ?? 0) !== (b?.size ?? 0)) return false;
  return [...(a ?? [])].every(([name, value]) => b?.get(name)?.equals(value) === true);
}

/** The other names of each file, as one string; absent where it has no other. */
function linkGroups(tree: FileTree): ReadonlyMap<ByteString, string> {
  const groups = new Map<string, ByteString[]>();
  for (const [path, { entry, layer, ordinal }] of tree) {
    if (entry.type === 'directory') continue;
    const key = `${layer} ${ordinal}`;
    groups.set(key, [...(groups.get(key) ?? []), path]);
  }
  const named = [...groups.values()].filter((paths) => paths.length > 1);
  return new Map(named.flatMap((paths) => paths.map((path) => [path, paths.join('\0')] as const)));
}
