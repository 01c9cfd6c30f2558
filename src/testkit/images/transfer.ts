import type { OciEvent, TransferOptions } from '../../oci/index.ts';

/** Options for calls that nobody cancels; the events are kept. */
export function recordingTransfer(
  signal = new AbortController().signal,
): TransferOptions & { readonly events: OciEvent[] } {
  const events: OciEvent[] = [];
  return { signal, events, emit: (event) => void events.push(event) };
}
