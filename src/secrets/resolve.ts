import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { SkycapError } from '../kernel/index.ts';
import type { CredentialSource } from '../settings/index.ts';
import { secretsError } from './errors.ts';

/** Larger things are data, not credentials. */
export const MAX_SECRET_BYTES = 16 * 1024 * 1024;

export interface ResolveOptions {
  /** Name of the credential, for messages. */
  readonly name: string;
  /** The environment that `env` sources and commands see. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Kinds that whoever named this source may name: `allowedSources(origin)`. */
  readonly allowed: ReadonlySet<CredentialSource['kind']>;
  /** Where the source was named, for messages: a flag or a file. */
  readonly from?: string;
}

/**
 * The bytes of a credential. `env`, `path` and `value` give them exactly as they are; `command` gives its standard
 * output less one line end (LF or CRLF) at the very end, as programs that print a secret add one.
 *
 * @throws SECRET_SOURCE_REFUSED, SECRET_MISSING, SECRET_UNREADABLE, SECRET_COMMAND_FAILED; the signal's reason.
 * No message holds a value or what a command printed.
 */
export async function resolveCredential(
  source: CredentialSource,
  options: ResolveOptions,
): Promise<Uint8Array> {
  options.signal.throwIfAborted();
  if (!options.allowed.has(source.kind)) {
    throw secretsError(
      'SECRET_SOURCE_REFUSED',
      `${subject(options)}: a \`${source.kind}\` source may be named only by a flag or your own configuration`,
      { hint: `pass --credential ${options.name}=env:VARIABLE, or put it into config.yaml` },
    );
  }
  switch (source.kind) {
    case 'value':
      return new TextEncoder().encode(source.value);
    case 'env':
      return fromEnvironment(source.name, options);
    case 'path':
      return await fromFile(source.path, options);
    case 'command':
      return await fromCommand(source.command, options);
  }
}

function subject({ name, from }: ResolveOptions): string {
  return from === undefined ? `credential ${name}` : `credential ${name} (${from})`;
}

function fromEnvironment(variable: string, options: ResolveOptions): Uint8Array {
  const value = Object.hasOwn(options.env, variable) ? options.env[variable] : undefined;
  if (value !== undefined) return new TextEncoder().encode(value);
  throw secretsError('SECRET_MISSING', `${subject(options)}: the variable ${variable} is not set`, {
    hint: `set ${variable}, to an empty string if it is meant to be empty`,
  });
}

async function fromFile(file: string, options: ResolveOptions): Promise<Uint8Array> {
  const wrong = (why: string, hint: string): SkycapError =>
    secretsError('SECRET_UNREADABLE', `${subject(options)}: ${file} ${why}`, { hint, place: { file } });
  // O_NONBLOCK: opening a FIFO that nobody writes to would wait for good.
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
        throw secretsError('SECRET_MISSING', `${subject(options)}: there is no file ${file}`, {
          hint: 'check the path',
          place: { file },
        });
      }
      throw wrong(`cannot be read: ${error.code}`, 'check its owner and mode');
    },
  );
  try {
    const stat = await handle.stat();
    if (!stat.isFile())
      throw wrong('is not a regular file', 'name a file, or use a `command` source to read a pipe');
    if (stat.size > MAX_SECRET_BYTES)
      throw wrong('is larger than 16 MiB', 'hand large files over as a parameter');
    return await handle.readFile({ signal: options.signal });
  } finally {
    await handle.close();
  }
}

function fromCommand(command: string, options: ResolveOptions): Promise<Uint8Array> {
  const failed = (why: string): SkycapError =>
    secretsError('SECRET_COMMAND_FAILED', `${subject(options)}: its command ${why}`, {
      hint: 'run the command by hand to see what it says',
    });
  return new Promise((resolve, reject) => {
    // A group of its own, so that cancelling reaches what the shell started.
    const child = spawn('/bin/sh', ['-c', command], {
      env: { ...options.env },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
    });
    const parts: Buffer[] = [];
    let size = 0;
    let tooLarge = false;
    const killGroup = (): void => {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has just ended.
      }
    };
    const stop = (): void => {
      killGroup();
      child.stdout.destroy();
    };
    options.signal.addEventListener('abort', stop, { once: true });
    child.stdout.on('data', (part: Buffer) => {
      size += part.length;
      if (size > MAX_SECRET_BYTES) {
        tooLarge = true;
        stop();
      } else parts.push(part);
    });
    child.once('error', () => {
      options.signal.removeEventListener('abort', stop);
      reject(failed('could not be started'));
    });
    child.once('close', (code, signal) => {
      options.signal.removeEventListener('abort', stop);
      if (options.signal.aborted) reject(options.signal.reason as Error);
      else if (tooLarge) reject(failed('printed more than 16 MiB'));
      else if (signal !== null) reject(failed(`was killed by ${signal}`));
      else if (code !== 0) reject(failed(`ended with exit code ${code}`));
      else resolve(withoutLineEnd(Buffer.concat(parts)));
    });
  });
}

function withoutLineEnd(bytes: Buffer): Buffer {
  if (bytes.at(-1) !== 0x0a) return bytes;
  return bytes.subarray(0, bytes.length - (bytes.at(-2) === 0x0d ? 2 : 1));
}
