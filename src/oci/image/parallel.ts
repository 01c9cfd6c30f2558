/**
 * Runs `work` on all items, at most `limit` at a time, in order of start. The first fault stops the rest: what has not
 * begun does not begin, the signal of what has begun is aborted, and when all have ended the fault is thrown.
 */
export async function eachLimited<T>(
  items: readonly T[],
  options: { readonly limit: number; readonly signal: AbortSignal },
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  let fault: { readonly error: unknown } | undefined;
  const queue = items.values();
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      if (fault !== undefined) return;
      try {
        await work(item, signal);
      } catch (error) {
        fault ??= { error };
        stop.abort();
      }
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, Math.min(options.limit, items.length)) }, worker));
  if (fault !== undefined) throw fault.error;
}
