import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { failpoint, kernelError } from '../../kernel/index.ts';
import { diskError } from '../../kernel/system/index.ts';
import { parseDigest } from '../names/index.ts';
import type { Store, TransferOptions } from '../port.ts';
import type { Digest } from '../types.ts';

/** A blob whose digest is known only when it is whole: written aside first, on the store's own disk. */
export async function spoolBlob(
  store: Store,
  bytes: AsyncIterable<Uint8Array>,
  transfer: TransferOptions,
): Promise<{ readonly digest: Digest; readonly size: number }> {
  const { lockNew } = await import('../store/lock.ts');
  // Before the file is there: where somebody finds the file and the lock is free, this process has died.
  const { name, lock } = lockNew(join(store.directory, 'locks'), 'spool');
  using _lock = lock;
  const path = join(store.directory, 'ingest', name);
  try {
    const blob = await writeSpool(path, bytes, transfer.signal);
    failpoint('spool.written');
    const descriptor = { mediaType: 'application/octet-stream', ...blob };
    await store.ingest(
      descriptor,
      async (start) => createReadStream(path, { start, highWaterMark: 1 << 20 }),
      transfer,
    );
    return blob;
  } finally {
    await rm(path, { force: true });
    await rm(lock.path, { force: true });
  }
}

async function writeSpool(
  path: string,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<{ readonly digest: Digest; readonly size: number }> {
  const hash = createHash('sha256');
  let size = 0;
  try {
    const handle = await open(path, 'wx', 0o600);
    try {
      for await (const chunk of bytes) {
        if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while a layer was packed');
        hash.update(chunk);
        for (let at = 0; at < chunk.length; ) at += (await handle.write(chunk, at)).bytesWritten;
        size += chunk.length;
        failpoint('spool.write');
      }
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw diskError(error, path);
  }
  return { digest: parseDigest(`sha256:${hash.digest('hex')}`), size };
}
