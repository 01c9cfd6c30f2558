import type { Emit } from '../../kernel/index.ts';
import { engineError } from '../errors.ts';
import type { CollectedFile, CollectRequest, EngineEvent } from '../port.ts';
import type { DockerApi } from './api.ts';
import { GO_SYMLINK } from './api-types.ts';
import { type ArchiveItem, itemsBelow, textOf } from './tar.ts';

const KINDS: Readonly<Record<string, string>> = {
  symlink: 'is a symbolic link',
  link: 'is a hard link',
  fifo: 'is a FIFO',
  char: 'is a device',
  block: 'is a device',
};

/**
 * Regular files of an ended container, out of the archive stream: no file of the container is opened on this side,
 * so links, FIFOs and devices are only names. Sizes are checked before a byte of content is read.
 *
 * @throws ENGINE_OUTPUT_TOO_LARGE
 */
export async function collectFiles(
  api: DockerApi,
  name: string,
  { request, emit }: { readonly request: CollectRequest; readonly emit: Emit<EngineEvent> },
): Promise<readonly CollectedFile[]> {
  const files = new Map<string, CollectedFile>();
  let total = 0;
  const leave = (path: string, why: string): void =>
    emit({ type: 'engine.notice', message: `${path} ${why} and was left out` });
  for (const path of request.paths) {
    const link = await linkOnTheWay(api, name, path);
    if (link !== undefined) {
      leave(path, `is reached through the symbolic link ${link}`);
      continue;
    }
    const archive = await api.getArchive(name, path);
    if (archive === undefined) continue;
    for await (const item of itemsBelow(archive)) {
      const at = item.path === '' ? path : `${path}/${textOf(item.path)}`;
      if (item.entry.type === 'directory' || files.has(at)) continue;
      if (item.entry.type === 'link') {
        // The archive tells of a second name only when it comes to it: the first one goes too.
        const first = `${path}/${textOf(item.entry.linkPath)}`;
        if (files.delete(first)) leave(first, KINDS.link as string);
      }
      if (item.entry.type !== 'file') {
        leave(at, KINDS[item.entry.type] ?? 'is no regular file');
        continue;
      }
      const size = item.entry.size;
      total += size;
      if (size > request.maxFileBytes || total > request.maxTotalBytes) throw tooLarge(at, size, request);
      files.set(at, { path: at, mode: item.entry.mode, content: await contentOf(item) });
    }
  }
  return [...files.values()];
}

async function contentOf({ body, entry }: ArchiveItem): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of body) parts.push(Buffer.from(part));
  return Buffer.concat(parts, entry.size);
}

async function linkOnTheWay(api: DockerApi, name: string, path: string): Promise<string | undefined> {
  const parts = path.split('/').filter((part) => part !== '');
  for (let end = 1; end < parts.length; end += 1) {
    const prefix = `/${parts.slice(0, end).join('/')}`;
    const stat = await api.stat(name, prefix);
    if (stat === undefined) return undefined;
    if ((stat.mode & GO_SYMLINK) !== 0) return prefix;
  }
  return undefined;
}

function tooLarge(path: string, size: number, request: CollectRequest): Error {
  const limit = size > request.maxFileBytes ? request.maxFileBytes : request.maxTotalBytes;
  return engineError('ENGINE_OUTPUT_TOO_LARGE', `${path} has ${size} bytes; the limit is ${limit}`, {
    hint: 'write less there, or raise the limit',
    details: { path, sizeBytes: size, limitBytes: limit },
  });
}
