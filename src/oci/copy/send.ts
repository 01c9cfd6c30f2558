import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { createDigester, digestParts } from '../names/index.ts';
import type { TransferOptions } from '../port.ts';
import type { Descriptor } from '../types.ts';

const PROGRESS_BYTES = 1 << 20;
/** Broken transfers in a row that brought nothing new. */
const MAX_FRUITLESS = 5;

/**
 * The bytes of a blob on their way to a registry: gone on with where the source breaks off, counted, and checked, so
 * that wrong bytes are our error and not the registry's puzzle. Registries check them again.
 *
 * @throws OCI_BLOB_CORRUPT, OCI_BLOB_INCOMPLETE, CANCELLED
 */
export async function* sending(
  blob: Descriptor,
  open: (offset: number) => AsyncIterable<Uint8Array>,
  { offset, signal, emit }: TransferOptions & { readonly offset: number },
): AsyncGenerator<Uint8Array> {
  const digester = offset === 0 ? createDigester(digestParts(blob.digest).algorithm) : undefined;
  let at = offset;
  let told = offset;
  let fruitless = 0;
  while (at < blob.size) {
    const before = at;
    try {
      for await (const chunk of open(at)) {
        at += chunk.length;
        if (at > blob.size) throw corrupt(blob, `more than the announced ${blob.size} bytes came`);
        digester?.update(chunk);
        // A reader of the last bytes would look no further, so they are let go only when they are known to be right.
        if (at === blob.size && digester !== undefined && digester.digest() !== blob.digest) {
          throw corrupt(blob, 'the bytes that came have another digest');
        }
        yield chunk;
        if (at - told >= PROGRESS_BYTES || at === blob.size) {
          told = at;
          emit({ type: 'blob.progress', digest: blob.digest, doneBytes: at, sizeBytes: blob.size });
        }
      }
      if (at >= blob.size) return;
      throw new Error('the transfer ended early');
    } catch (error) {
      if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while a blob was copied');
      if (isSkycapError(error) || at >= blob.size) throw error;
      fruitless = at > before ? 0 : fruitless + 1;
      if (fruitless >= MAX_FRUITLESS) {
        throw ociError(
          'OCI_BLOB_INCOMPLETE',
          `${blob.digest}: the source ends at byte ${at} of ${blob.size}`,
          {
            hint: 'run the same command again; it leaves out what is there',
            cause: error,
          },
        );
      }
      const reason = error instanceof Error ? error.message : String(error);
      emit({ type: 'blob.retry', digest: blob.digest, reason, offset: at });
    }
  }
}

function corrupt({ digest }: Descriptor, what: string): Error {
  return ociError('OCI_BLOB_CORRUPT', `${digest}: ${what}`, {
    hint: 'try again; if it stays, the source or the network changes the bytes',
    details: { digest },
  });
}
