import { isSkycapError } from '../../kernel/index.ts';
import type { BlobBytes, ReadOptions, TransferOptions } from '../port.ts';

/**
 * Runs `work` with a way to open a blob. Where it ends in wrong bytes and a mirror had a part in them, it is run once
 * more with those of the registry itself: only whoever keeps the bytes can begin again.
 */
export async function pastWrongMirror<T>(
  open: (offset: number, options: ReadOptions) => Promise<BlobBytes>,
  options: TransferOptions,
  work: (open: (offset: number) => Promise<BlobBytes>) => Promise<T>,
): Promise<T> {
  let mirror: string | undefined;
  try {
    return await work(async (offset) => {
      const bytes = await open(offset, options);
      mirror ??= bytes.mirror;
      return bytes;
    });
  } catch (error) {
    if (mirror === undefined || options.signal.aborted || !isSkycapError(error, 'OCI_BLOB_CORRUPT'))
      throw error;
    const message = `mirror passed over: ${error.message}`;
    options.emit({ type: 'registry.warning', registry: mirror, message });
    return await work((offset) => open(offset, { ...options, mirrors: false }));
  }
}
