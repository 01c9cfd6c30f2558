// Without node:fs/promises: loading it takes longer than `lint` and `explain` have for reading one file.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { kernelError } from '../../kernel/index.ts';

/** Nobody means a device that never ends, and larger files are for volumes and the workspace. */
export const MAX_INPUT_BYTES = 64 << 20;

/**
 * A file that the user named; a pipe, as of `<(command)`, is read to its end.
 *
 * @throws FILE_UNREADABLE
 */
export async function readUserFile(path: string, what: string, signal?: AbortSignal): Promise<Buffer> {
  const unreadable = (reason: string, cause?: unknown): Error =>
    kernelError('FILE_UNREADABLE', `${what} ${path}: ${reason}`, {
      hint: 'check the path, or run the command in the folder of the file',
      place: { file: path },
      ...(cause === undefined ? {} : { cause }),
    });
  let fd: number | undefined;
  try {
    // O_NONBLOCK: opening a FIFO that nobody writes to would wait, and could not be cancelled.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = fstatSync(fd);
    if (status.isDirectory()) throw unreadable('it is a folder');
    if (status.isFile()) {
      if (status.size > MAX_INPUT_BYTES) throw unreadable(TOO_LARGE);
      return readFileSync(fd);
    }
    const pipe = status.isFIFO() ? await pipeOf(fd) : await deviceOf(fd);
    fd = undefined;
    return await upTo(pipe, () => unreadable(TOO_LARGE), signal);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'FILE_UNREADABLE' || signal?.aborted === true) throw error;
    throw unreadable(code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`, error);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

const TOO_LARGE = `it has more than ${MAX_INPUT_BYTES >> 20} MiB, or no end`;

/** Waits for a writer, and for its bytes, without a thread that would hold up the end of the process. */
async function pipeOf(fd: number): Promise<AsyncIterable<Uint8Array>> {
  const { Socket } = await import('node:net');
  return new Socket({ fd, readable: true, writable: false });
}

async function deviceOf(fd: number): Promise<AsyncIterable<Uint8Array>> {
  const { isatty, ReadStream } = await import('node:tty');
  // Read as a file, a terminal that must not block says at once that nothing was typed yet.
  if (isatty(fd)) return new ReadStream(fd);
  const { createReadStream } = await import('node:fs');
  return createReadStream('', { fd, highWaterMark: 1 << 20 });
}

/**
 * All bytes of a stream that somebody else fills.
 *
 * @param tooMany what is thrown where there are more than MAX_INPUT_BYTES
 */
export async function upTo(
  chunks: AsyncIterable<Uint8Array>,
  tooMany: () => Error,
  signal?: AbortSignal,
): Promise<Buffer> {
  const cancelled = (): Error =>
    kernelError('CANCELLED', 'cancelled while input was read', { hint: 'run the command again' });
  const stop = (): void => (chunks as { destroy?: (error: Error) => void }).destroy?.(cancelled());
  const parts: Uint8Array[] = [];
  let length = 0;
  signal?.addEventListener('abort', stop, { once: true });
  if (signal?.aborted === true) stop();
  try {
    for await (const chunk of chunks) {
      length += chunk.length;
      if (length > MAX_INPUT_BYTES) throw tooMany();
      parts.push(chunk);
    }
    return Buffer.concat(parts, length);
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}
