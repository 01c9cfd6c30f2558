import type { ContainerExit, ContainerIo } from '../port.ts';
import type { DockerApi } from './api.ts';
import { followOutput } from './follow.ts';
import { FrameDecoder, StartReport } from './frames.ts';
import type { ContainerPlaces } from './places.ts';

const ENOENT = 2;
const ENOTDIR = 20;

export interface Watched {
  readonly name: string;
  readonly places: ContainerPlaces;
  /** Empty where the container has no first process of ours. */
  readonly mark: string;
  readonly graceMs: number;
}

/** Output and end of a container that its supervisor has started; hands on cancellation. */
export async function watchExit(api: DockerApi, watched: Watched, io: ContainerIo): Promise<ContainerExit> {
  const { places, mark } = watched;
  const report = new StartReport(mark === '' ? '\0' : mark, (chunk) => io.onOutput('stderr', chunk));
  const decoder = new FrameDecoder((stream, chunk) => {
    if (stream === 'stderr') report.push(chunk);
    else io.onOutput(stream, chunk);
  });
  const cancelling = new Cancelling(api, watched, io);
  try {
    const exit = await followOutput(places, (bytes) => decoder.push(bytes));
    const errno = report.end();
    if (exit === undefined) return await orphaned(api, watched, cancelling);
    if (exit.outputLost !== undefined || !decoder.whole) {
      return {
        exitCode: exit.exitCode,
        cause: 'unknown',
        startedAt: exit.startedAt,
        finishedAt: exit.finishedAt,
        message: `a part of the output is lost: ${exit.outputLost ?? 'it breaks off in the middle'}`,
      };
    }
    const cause = causeOf({ ...exit, errno, cancelled: cancelling.begun });
    return {
      exitCode: cause === 'not-found' ? 127 : exit.exitCode,
      cause,
      startedAt: exit.startedAt,
      finishedAt: laterOf(exit.startedAt, exit.finishedAt),
      ...messageOf(errno, exit.error),
    };
  } finally {
    cancelling.over();
  }
}

function causeOf(of: {
  readonly exitCode: number;
  readonly oomKilled: boolean;
  readonly timedOut: boolean;
  readonly errno: number | undefined;
  readonly cancelled: boolean;
}): ContainerExit['cause'] {
  if (of.errno !== undefined)
    return of.errno === ENOENT || of.errno === ENOTDIR ? 'not-found' : 'not-executable';
  if (of.exitCode === -1) return 'unknown';
  if (of.timedOut) return 'timeout';
  if (of.cancelled) return 'cancelled';
  // The flag is also set when only a child was killed and the step went on.
  return of.oomKilled && of.exitCode === 137 ? 'oom' : 'exited';
}

/** The daemon notes a start after it has happened, so a short run may end before it began by its clock. */
function laterOf(startedAt: string, finishedAt: string): string {
  return Date.parse(finishedAt) < Date.parse(startedAt) ? startedAt : finishedAt;
}

function messageOf(errno: number | undefined, error: string): { readonly message?: string } {
  if (errno !== undefined) return { message: `the command could not be executed (errno ${errno})` };
  return error === '' ? {} : { message: error };
}

/** Nobody records any more: the daemon's own word, and a part of the output may be missing. */
async function orphaned(api: DockerApi, watched: Watched, cancelling: Cancelling): Promise<ContainerExit> {
  await api.wait(watched.name);
  const state = (await api.inspect(watched.name))?.State;
  return {
    exitCode: state?.ExitCode ?? -1,
    cause: cancelling.begun ? 'cancelled' : 'unknown',
    startedAt: state?.StartedAt ?? '',
    finishedAt: state?.FinishedAt ?? '',
    message: 'the process that kept its output is gone; a part of the output may be missing',
  };
}

class Cancelling {
  begun = false;
  readonly #io: ContainerIo;
  readonly #soft: () => void;
  readonly #hard: () => void;
  #grace: NodeJS.Timeout | undefined;

  constructor(api: DockerApi, watched: Watched, io: ContainerIo) {
    this.#io = io;
    const send = (signal: 'TERM' | 'KILL'): void => {
      this.begun = true;
      // A daemon that does not answer now is asked again by the next abort, or keeps running what it runs.
      api.kill(watched.name, signal).catch(() => {});
    };
    this.#hard = () => {
      clearTimeout(this.#grace);
      send('KILL');
    };
    this.#soft = () => {
      this.#grace ??= setTimeout(() => send('KILL'), watched.graceMs);
      send('TERM');
    };
    io.signal.addEventListener('abort', this.#soft, { once: true });
    io.kill.addEventListener('abort', this.#hard, { once: true });
    if (io.kill.aborted) this.#hard();
    else if (io.signal.aborted) this.#soft();
  }

  over(): void {
    clearTimeout(this.#grace);
    this.#io.signal.removeEventListener('abort', this.#soft);
    this.#io.kill.removeEventListener('abort', this.#hard);
  }
}
