import type { ContainerExit, ContainerIo } from './port.ts';

export function isCancelled(io: Pick<ContainerIo, 'signal' | 'kill'>): boolean {
  return io.signal.aborted || io.kill.aborted;
}

/** The end of a container that was cancelled before it could start. */
export function cancelledBefore(): ContainerExit {
  const now = new Date().toISOString();
  return {
    exitCode: 143,
    cause: 'cancelled',
    startedAt: now,
    finishedAt: now,
    message: 'cancelled before it was started',
  };
}
