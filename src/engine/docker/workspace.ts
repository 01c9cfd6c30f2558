import { createHash } from 'node:crypto';
import { toBytes } from '../../oci/layer/index.ts';
import { engineError } from '../errors.ts';
import type { Workspace, WorkspaceEntry } from '../port.ts';
import type { Holder } from './holder.ts';
import { type ArchiveItem, gather, itemsBelow, owned, packItems, readItems, textOf } from './tar.ts';

/** Beyond so many paths one pass over the whole workspace is cheaper than asking for each. */
const ONE_BY_ONE = 16;
/** Mounted over in every step, so never part of the workspace. */
export const OUTPUTS = 'outputs';

/** The run's volume, reached through the archive endpoint of the holder: works with a daemon anywhere. */
export function dockerWorkspace(holder: Holder): Workspace {
  return {
    async put(archive) {
      await holder.api.putArchive(holder.name, holder.path, packItems(incoming(archive, holder)));
    },
    async get(paths) {
      return packItems(selected(holder, paths.map(clean)));
    },
    async snapshot() {
      return await gather(entries(holder));
    },
    async remove(paths) {
      if (paths.length > 0) await holder.remove(paths.map(clean));
    },
  };
}

async function* incoming(archive: AsyncIterable<Uint8Array>, holder: Holder): AsyncGenerator<ArchiveItem> {
  for await (const item of readItems(archive)) {
    if (item.path === '') continue;
    if (item.entry.type === 'char' || item.entry.type === 'block') {
      throw engineError(
        'ENGINE_ARCHIVE_INVALID',
        `${textOf(item.path)} is a device, which no workspace may hold`,
      );
    }
    yield { ...item, entry: owned(item.entry, holder.owner) };
  }
}

async function* selected(holder: Holder, paths: readonly string[]): AsyncGenerator<ArchiveItem> {
  const wanted = outermost(paths);
  if (wanted.length > ONE_BY_ONE || wanted.includes('')) {
    for await (const item of whole(holder)) if (wanted.some((path) => isIn(item.path, path))) yield item;
    return;
  }
  for (const path of wanted) {
    const text = textOf(path);
    if (await holder.isThroughLink(text)) continue;
    const archive = await holder.api.getArchive(holder.name, `${holder.path}/${text}`);
    if (archive === undefined) continue;
    for await (const item of itemsBelow(archive)) {
      const at = item.path === '' ? path : `${path}/${item.path}`;
      const { entry } = item;
      // The target was relative to what was asked for; outside of it there can be none.
      const linkPath = entry.type === 'link' ? `${path}/${entry.linkPath}` : entry.linkPath;
      if (isIn(at, OUTPUTS)) continue;
      yield { ...item, path: at, entry: { ...entry, linkPath } };
    }
  }
}

async function* whole(holder: Holder): AsyncGenerator<ArchiveItem> {
  const archive = await holder.api.getArchive(holder.name, holder.path);
  if (archive === undefined) return;
  for await (const item of itemsBelow(archive)) if (item.path !== '' && !isIn(item.path, OUTPUTS)) yield item;
}

async function* entries(holder: Holder): AsyncGenerator<WorkspaceEntry> {
  const contents = new Map<string, { readonly fingerprint: string; readonly size: number }>();
  for await (const { path, entry, body } of whole(holder)) {
    let fingerprint = '';
    let size = entry.size;
    if (entry.type === 'file') {
      const hash = createHash('sha256');
      for await (const part of body) hash.update(part);
      fingerprint = `sha256:${hash.digest('hex')}`;
      contents.set(path, { fingerprint, size });
    } else if (entry.type === 'link') {
      // Another name of a file that came earlier in the stream.
      const first = contents.get(entry.linkPath);
      fingerprint = first?.fingerprint ?? '';
      size = first?.size ?? 0;
    } else if (entry.type === 'symlink') fingerprint = `link:${textOf(entry.linkPath)}`;
    yield { path: textOf(path), type: kindOf(entry.type), sizeBytes: size, mode: entry.mode, fingerprint };
  }
}

function kindOf(type: ArchiveItem['entry']['type']): WorkspaceEntry['type'] {
  if (type === 'link' || type === 'file') return 'file';
  return type === 'directory' || type === 'symlink' ? type : 'other';
}

function isIn(path: string, folder: string): boolean {
  return folder === '' || path === folder || path.startsWith(`${folder}/`);
}

/** Without those that lie below another one. */
function outermost(paths: readonly string[]): readonly string[] {
  const sorted = [...new Set(paths)].sort();
  return sorted.filter((path) => !sorted.some((other) => other !== path && isIn(path, other)));
}

function clean(path: string): string {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (path.startsWith('/') || parts.includes('..') || path.includes('\0')) {
    throw engineError('ENGINE_ARCHIVE_INVALID', `${JSON.stringify(path)} leaves the workspace`);
  }
  return toBytes(parts.join('/'));
}
