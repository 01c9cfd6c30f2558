import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomic } from '../../kernel/system/index.ts';
import { isDigest } from '../names/index.ts';
import type { Digest } from '../types.ts';
import type { Layout } from './layout.ts';
import { type Lock, lockNew, tryLock } from './lock.ts';
import { step } from './steps.ts';

interface LeaseFile {
  readonly name: string;
  readonly digests: readonly Digest[];
  /** Milliseconds since 1970 until which the lease outlives its process. */
  readonly expires: number;
  /** File name of the lock that the holding process keeps. */
  readonly holder: string;
}

/** The leases that this process holds, and the lock that proves it to be alive. */
export class LeaseBook {
  readonly #layout: Layout;
  #holder: { readonly name: string; readonly lock: Lock } | undefined;
  readonly #own = new Map<string, readonly Digest[]>();

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  /** The caller holds the store's lock, so that no prune is choosing at this moment. */
  async write(id: string, lease: Omit<LeaseFile, 'holder'>): Promise<void> {
    const file: LeaseFile = { ...lease, holder: this.#holderName() };
    const path = this.#path(id);
    if (lease.expires > 0) {
      await writeFileAtomic(path, JSON.stringify(file), { at: (moment) => step(`lease.${moment}`) });
    } else {
      // It ends with its process, so no power failure outlives it: nothing to wait for.
      const temporary = join(this.#layout.leases, `.${id}.tmp`);
      await writeFile(temporary, JSON.stringify(file), { mode: 0o600 });
      await rename(temporary, path);
    }
    this.#own.set(id, lease.digests);
  }

  /** Whether a lease of this process keeps the digest itself. */
  covers(digest: Digest): boolean {
    return [...this.#own.values()].some((digests) => digests.includes(digest));
  }

  async drop(id: string): Promise<void> {
    this.#own.delete(id);
    await rm(this.#path(id), { force: true });
  }

  /** Removes all of this name, whoever took them. The caller holds the store's lock. */
  async end(leaseName: string): Promise<void> {
    for (const name of await readdir(this.#layout.leases)) {
      if (!name.endsWith('.json')) continue;
      const lease = await readLease(join(this.#layout.leases, name));
      if (lease?.name === leaseName) await this.drop(name.slice(0, -'.json'.length));
    }
  }

  #path(id: string): string {
    return join(this.#layout.leases, `${id}.json`);
  }

  #holderName(): string {
    if (this.#holder === undefined) {
      this.#holder = lockNew(this.#layout.locks, 'holder');
    }
    return this.#holder.name;
  }

  async close(): Promise<void> {
    const holder = this.#holder;
    if (holder === undefined) return;
    this.#holder = undefined;
    this.#own.clear();
    await rm(join(this.#layout.locks, holder.name), { force: true });
    holder.lock[Symbol.dispose]();
  }

  /** Digests that live leases keep; removes the dead ones. The caller holds the store's lock. */
  async sweep(now: number): Promise<Set<Digest>> {
    const kept = new Set<Digest>();
    const alive = await this.#aliveHolders();
    for (const name of await readdir(this.#layout.leases)) {
      if (!name.endsWith('.json')) continue;
      const path = join(this.#layout.leases, name);
      const lease = await readLease(path);
      if (lease !== undefined && (alive.has(lease.holder) || now < lease.expires)) {
        for (const digest of lease.digests) kept.add(digest);
      } else await rm(path, { force: true });
    }
    return kept;
  }

  async #aliveHolders(): Promise<Set<string>> {
    const alive = new Set<string>();
    for (const name of await readdir(this.#layout.locks)) {
      if (!name.startsWith('holder-')) continue;
      const path = join(this.#layout.locks, name);
      if (isHeld(path)) alive.add(name);
      else await rm(path, { force: true });
    }
    return alive;
  }
}

function isHeld(path: string): boolean {
  const lock = tryLock(path);
  lock?.[Symbol.dispose]();
  return lock === undefined;
}

/** undefined where it is gone, or is none. */
async function readLease(path: string): Promise<LeaseFile | undefined> {
  return await readFile(path, 'utf8')
    .then(parseLease)
    .catch(() => undefined);
}

function parseLease(text: string): LeaseFile | undefined {
  const value = JSON.parse(text) as LeaseFile;
  if (typeof value.holder !== 'string' || typeof value.expires !== 'number') return undefined;
  return { ...value, digests: value.digests.filter(isDigest) };
}
