import { appendFile, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory, writeFileAtomic } from '../../kernel/system/index.ts';
import { isDigest, isRepositoryPath } from '../names/index.ts';
import type { Digest } from '../types.ts';
import { acquireLock } from './lock.ts';

const FILE = '.registry-hidden';
/** In a line: of each repository. */
const EVERY = '*';
/** Lines of what has come back since are dropped beyond so many bytes. */
const LARGEST = 1024 * 1024;

/** What was deleted from a repository while its bytes are in the store still, or another repository has them too. */
export interface Hidden {
  has(repository: string, digest: Digest): boolean;
  hide(repository: string, digest: Digest): Promise<void>;
  show(repository: string, digest: Digest): Promise<void>;
  /** Hears of what others have written since: other servers, and who names an image in the store. */
  refresh(): Promise<void>;
}

/**
 * Kept in a file of the store's folder, a line for each change, so that a restart brings nothing back. Another server
 * on the same store adds to the same file.
 *
 * @param directory of the store
 * @param writable Whether a file that has grown long may be made short.
 */
export async function openHidden(directory: string, writable: boolean): Promise<Hidden> {
  const path = join(directory, FILE);
  let seen = await markOf(path);
  const text = await readOrNothing(path);
  let hidden = writable && text.length > LARGEST ? await shorten() : replay(text);
  let durable = false;

  async function refresh(): Promise<void> {
    const mark = await markOf(path);
    if (mark === undefined || mark === seen) return;
    hidden = replay(await readFile(path, 'utf8'));
    seen = mark;
  }

  async function shorten(): Promise<Set<string>> {
    using _lock = await lock(path);
    const current = replay(await readOrNothing(path));
    await writeFileAtomic(path, [...current].map((key) => `-${key}\n`).join(''), { mode: 0o600 });
    return current;
  }

  async function note(line: string): Promise<void> {
    using _lock = await lock(path);
    await refresh();
    // After a line that was cut off this is one of its own all the same.
    await appendFile(path, `\n${line}\n`, { mode: 0o600, flush: true });
    // The file may be new, and its name is to outlive a power failure as well.
    if (!durable) await syncDirectory(directory);
    durable = true;
    seen = await markOf(path);
  }

  return {
    refresh,
    has: (repository, digest) => hidden.has(keyOf(repository, digest)),
    hide: async (repository, digest) => {
      const key = keyOf(repository, digest);
      if (hidden.has(key)) return;
      // Before it is gone for anyone: what cannot be kept is not done.
      await note(`-${key}`);
      hidden.add(key);
    },
    show: async (repository, digest) => {
      const key = keyOf(repository, digest);
      if (!hidden.has(key)) return;
      await note(`+${key}`);
      hidden.delete(key);
    },
  };
}

/**
 * An image was named in the store with all it leads to: what was deleted of that is offered again, as it would be had
 * it been pushed.
 *
 * @param directory of the store
 * @param reached What the name leads to; asked for only where something was deleted.
 */
export async function showNamed(
  directory: string,
  reached: () => Promise<ReadonlySet<Digest>>,
): Promise<void> {
  const path = join(directory, FILE);
  const hidden = replay(await readOrNothing(path));
  if (hidden.size === 0) return;
  const named = await reached();
  const shown = new Set([...hidden].map(digestIn).filter((digest) => named.has(digest)));
  if (shown.size === 0) return;
  using _lock = await lock(path);
  const lines = [...shown].map((digest) => `+${EVERY}@${digest}\n`);
  await appendFile(path, `\n${lines.join('')}`, { mode: 0o600, flush: true });
}

const lock = (path: string): ReturnType<typeof acquireLock> =>
  acquireLock(`${path}.lock`, { signal: AbortSignal.timeout(60_000) });

/** Which file it is, and how long; undefined where there is none. Lines are only added to one. */
async function markOf(path: string): Promise<string | undefined> {
  const info = await stat(path).catch(() => undefined);
  return info?.isFile() === true ? `${info.ino} ${info.size}` : undefined;
}

function digestIn(key: string): Digest {
  return key.slice(key.indexOf('@') + 1) as Digest;
}

function keyOf(repository: string, digest: Digest): string {
  return `${repository}@${digest}`;
}

/** A line that was cut off, or that nobody here wrote, says nothing. */
function replay(text: string): Set<string> {
  const hidden = new Set<string>();
  for (const line of text.split('\n')) {
    const [repository = '', digest] = line.slice(1).split('@', 2);
    if (!isDigest(digest)) continue;
    if (line === `+${EVERY}@${digest}`) {
      for (const key of hidden) if (digestIn(key) === digest) hidden.delete(key);
      continue;
    }
    if (!isRepositoryPath(repository)) continue;
    if (line.startsWith('-')) hidden.add(line.slice(1));
    else if (line.startsWith('+')) hidden.delete(line.slice(1));
  }
  return hidden;
}

async function readOrNothing(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch((error: { code?: string }) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
}
