/** What the work gives; undefined where it throws, whatever that is. For what others wrote, and may have written wrongly. */
export function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
