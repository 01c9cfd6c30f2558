import { isSkycapError } from '../../kernel/index.ts';
import type { BlobBytes, ReadOptions, TransferOptions } from '../port.ts';

const OF_WRONG_BYTES = new Set([
  'OCI_BLOB_CORRUPT',
  'OCI_LAYER_INVALID',
  'OCI_LAYER_UNSAFE',
  'OCI_LAYER_LIMIT',
  'OCI_LAYER_DIFFID',
]);

/**
 * Runs `work` with a way to open a blob, or several. Where it ends in wrong bytes and a mirror had a part in them, it
 * is run once more with those of the registry itself: only whoever keeps the bytes can begin again.
 */
export async function pastWrongMirror<T, At = number>(
  open: (at: At, options: ReadOptions) => Promise<BlobBytes>,
  options: TransferOptions,
  work: (open: (at: At) => Promise<BlobBytes>) => Promise<T>,
): Promise<T> {
  let mirror: string | undefined;
  try {
    return await work(async (at) => {
      const bytes = await open(at, options);
      mirror ??= bytes.mirror;
      return bytes;
    });
  } catch (error) {
    if (mirror === undefined || options.signal.aborted || !isOfWrongBytes(error)) throw error;
    const message = `mirror passed over: ${error.message}`;
    options.emit({ type: 'registry.warning', registry: mirror, message });
    return await work((at) => open(at, { ...options, mirrors: false }));
  }
}

/** Wrong bytes are often found out before the digest is: as a layer that nobody can unpack. */
function isOfWrongBytes(error: unknown): error is Error {
  return isSkycapError(error) && OF_WRONG_BYTES.has(error.code);
}
