/**
 * Seconds of processor time that this thread took for some work: how long that took by the clock says more of what
 * else the machine did.
 */
export async function cpuSeconds(work: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  await work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1e6;
}
