import { ociError } from '../../errors.ts';
import type { TransferOptions } from '../../port.ts';

/** For an answer of bounded size: a manifest, a list with all its pages, a deletion. Retries included. */
export const ANSWER_MS = 300_000;

/**
 * Ends what a registry draws out: each byte may come in time and the whole never.
 *
 * @throws REGISTRY_UNREACHABLE when `ms` are over; 0 never ends
 */
export async function within<T>(
  ms: number,
  asked: { readonly subject: string; readonly transfer: TransferOptions },
  work: (transfer: TransferOptions) => Promise<T>,
): Promise<T> {
  const { subject, transfer } = asked;
  if (ms === 0) return await work(transfer);
  const late = new AbortController();
  const error = ociError('REGISTRY_UNREACHABLE', `${subject}: no whole answer within ${ms / 1000} s`, {
    hint: 'try again later, or ask who runs the registry',
  });
  const timer = setTimeout(() => late.abort(error), ms);
  try {
    return await work({ ...transfer, signal: AbortSignal.any([transfer.signal, late.signal]) });
  } finally {
    clearTimeout(timer);
  }
}
