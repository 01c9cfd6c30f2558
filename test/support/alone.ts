import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acquireLock, type Lock } from '../../src/oci/store/lock.ts';

/**
 * For a name on the Docker daemon that a bundle, and not its test, has chosen: other tests of this host that use it,
 * those of another checkout too, wait until the lock is given back.
 */
export async function aloneWith(name: string): Promise<Lock> {
  const path = join(tmpdir(), `skycap-test-${name}.lock`);
  return await acquireLock(path, { signal: new AbortController().signal, timeoutMs: 500_000 });
}
