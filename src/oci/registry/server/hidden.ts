import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory, writeFileAtomic } from '../../../kernel/system/index.ts';
import { isDigest, isRepositoryPath } from '../../names/index.ts';
import { acquireLock } from '../../store/lock.ts';
import type { Digest } from '../../types.ts';

const FILE = '.registry-hidden';
/** Lines of what has come back since are dropped beyond so many bytes. */
const LARGEST = 1024 * 1024;

/** What was deleted from a repository while its bytes are in the store still, or another repository has them too. */
export interface Hidden {
  has(repository: string, digest: Digest): boolean;
  hide(repository: string, digest: Digest): Promise<void>;
  show(repository: string, digest: Digest): Promise<void>;
}

/**
 * Kept in a file of the store's folder, a line for each change, so that a restart brings nothing back. Another server
 * on the same store adds to the same file, and is heard of at the next start.
 *
 * @param directory of the store
 * @param writable Whether a file that has grown long may be made short.
 */
export async function openHidden(directory: string, writable: boolean): Promise<Hidden> {
  const path = join(directory, FILE);
  const locked = (): ReturnType<typeof acquireLock> =>
    acquireLock(`${path}.lock`, { signal: AbortSignal.timeout(60_000) });
  const text = await readOrNothing(path);
  const hidden = writable && text.length > LARGEST ? await shorten() : replay(text);
  let durable = false;

  async function shorten(): Promise<Set<string>> {
    using _lock = await locked();
    const current = replay(await readOrNothing(path));
    await writeFileAtomic(path, [...current].map((key) => `-${key}\n`).join(''), { mode: 0o600 });
    return current;
  }

  async function note(line: string): Promise<void> {
    using _lock = await locked();
    // After a line that was cut off this is one of its own all the same.
    await appendFile(path, `\n${line}\n`, { mode: 0o600, flush: true });
    // The file may be new, and its name is to outlive a power failure as well.
    if (!durable) await syncDirectory(directory);
    durable = true;
  }

  return {
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

function keyOf(repository: string, digest: Digest): string {
  return `${repository}@${digest}`;
}

/** A line that was cut off, or that nobody here wrote, says nothing. */
function replay(text: string): Set<string> {
  const hidden = new Set<string>();
  for (const line of text.split('\n')) {
    const [repository = '', digest] = line.slice(1).split('@', 2);
    if (!isRepositoryPath(repository) || !isDigest(digest)) continue;
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
