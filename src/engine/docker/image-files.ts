import { randomBytes } from 'node:crypto';
import { posix } from 'node:path';
import type { DockerApi } from './api.ts';
import { GO_SYMLINK } from './api-types.ts';
import { labelsOf, runName } from './names.ts';
import { type ArchiveItem, itemsBelow, packItems } from './tar.ts';
import type { Accounts } from './users.ts';

const ACCOUNT_BYTES = 1 << 20;

/**
 * A container of an image that is never started and has no mounts: what it shows is the image. (A step's container
 * shows its mounts' parents too, as soon as the daemon has looked into it.)
 */
export async function createLook(
  api: DockerApi,
  of: { readonly imageId: string; readonly runId: string },
): Promise<string> {
  const name = runName(of.runId, `look-${randomBytes(6).toString('hex')}`);
  await api.run({
    method: 'POST',
    path: '/containers/create',
    query: { name },
    json: {
      Image: of.imageId,
      Entrypoint: ['/never-started'],
      Labels: labelsOf(of.runId, 'helper'),
      HostConfig: { NetworkMode: 'none', LogConfig: { Type: 'none' } },
    },
    doing: 'look into an image',
  });
  return name;
}

/** The files below a path as a tar stream with paths relative to it; undefined where there are none. */
export async function filesBelow(
  api: DockerApi,
  name: string,
  path: string,
): Promise<AsyncIterable<Uint8Array> | undefined> {
  const archive = await api.getArchive(name, path);
  if (archive === undefined) return undefined;
  const items = below(archive);
  const first = await items.next();
  return first.done === true ? undefined : packItems(withFirst(first.value, items));
}

async function* below(archive: AsyncIterable<Uint8Array>): AsyncGenerator<ArchiveItem> {
  for await (const item of itemsBelow(archive)) if (item.path !== '') yield item;
}

async function* withFirst(
  first: ArchiveItem,
  rest: AsyncGenerator<ArchiveItem>,
): AsyncGenerator<ArchiveItem> {
  yield first;
  yield* rest;
}

/** The image's account files, read from a look. */
export async function readAccounts(api: DockerApi, name: string): Promise<Accounts> {
  const [passwd, group] = await Promise.all([
    smallFile(api, name, '/etc/passwd'),
    smallFile(api, name, '/etc/group'),
  ]);
  return { passwd, group };
}

async function smallFile(api: DockerApi, name: string, path: string): Promise<string | undefined> {
  let at = path;
  for (let links = 0; links < 8; links += 1) {
    const stat = await api.stat(name, at);
    if (stat === undefined) return undefined;
    if ((stat.mode & GO_SYMLINK) === 0) break;
    // The daemon gives the target as an absolute path within the container.
    at = stat.linkTarget.startsWith('/')
      ? stat.linkTarget
      : `${at.slice(0, at.lastIndexOf('/'))}/${stat.linkTarget}`;
  }
  const archive = await api.getArchive(name, at);
  if (archive === undefined) return undefined;
  for await (const { entry, body } of itemsBelow(archive)) {
    if (entry.type !== 'file' || entry.size > ACCOUNT_BYTES) return undefined;
    const parts: Buffer[] = [];
    for await (const part of body) parts.push(Buffer.from(part));
    return Buffer.concat(parts).toString('utf8');
  }
  return undefined;
}

/** Where the image's own links lead a path; what does not exist stays as it is written. */
export async function realPath(api: DockerApi, name: string, path: string): Promise<string> {
  let at = path;
  // As many links as the kernel follows (path_resolution(7)).
  for (let links = 0; links < 40; links += 1) {
    const next = await throughFirstLink(api, name, at);
    if (next === undefined) return at;
    at = next;
  }
  return at;
}

async function throughFirstLink(api: DockerApi, name: string, path: string): Promise<string | undefined> {
  const names = path.split('/').filter((part) => part !== '');
  for (const index of names.keys()) {
    const above = `/${names.slice(0, index).join('/')}`;
    const stat = await api.stat(name, posix.join(above, names[index] as string));
    if (stat === undefined) return undefined;
    if ((stat.mode & GO_SYMLINK) === 0) continue;
    return posix.join('/', posix.resolve(above, stat.linkTarget), ...names.slice(index + 1));
  }
  return undefined;
}
