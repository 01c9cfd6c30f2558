import { readFile } from 'node:fs/promises';
import { arch, platform } from 'node:os';
import type { Bundle, FactsOf, TagState } from '../../bundle/index.ts';
import type { Problem } from '../../document/index.ts';
import { type ImageAccess, type Lock, lockFacts, parseLock, tagsNow } from '../../images/index.ts';
import { isSkycapError } from '../../kernel/index.ts';
import { formatPlatform, hostPlatform } from '../../oci/names/index.ts';

export type ReadLock =
  | { readonly lock: Lock; readonly facts: FactsOf; readonly problems: readonly [] }
  | { readonly lock?: never; readonly facts?: never; readonly problems: readonly Problem[] };

/** porter.lock as lint uses it; one that cannot be read is a finding among the others. */
export async function readLock(file: string, name: string): Promise<ReadLock> {
  try {
    const lock = parseLock(await readFile(file, 'utf8'), name);
    const host = formatPlatform(hostPlatform({ platform: platform(), arch: arch() }));
    return { lock, facts: lockFacts(lock, host), problems: [] };
  } catch (error) {
    if (!isSkycapError(error)) throw error;
    const { message, hint, place } = error;
    const problem: Problem = {
      severity: 'error',
      code: 'lock-invalid',
      message,
      ...(hint === undefined ? {} : { hint }),
      place: place ?? { file: name },
    };
    return { problems: [problem] };
  }
}

/** Asks the registries. */
export async function askTags(
  bundle: Bundle,
  lock: Lock,
  access: ImageAccess,
): Promise<ReadonlyMap<string, TagState>> {
  const { moved, unknown } = await tagsNow(bundle, lock, access);
  return new Map<string, TagState>([
    ...moved.map(({ name, from = '', to = '' }) => [name, { kind: 'moved', from, to }] as const),
    ...unknown.map(({ name, reason }) => [name, { kind: 'unknown', reason }] as const),
  ]);
}
