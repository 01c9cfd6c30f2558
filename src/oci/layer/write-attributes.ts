import { spawn } from 'node:child_process';
import { chmod, lchown, lutimes, utimes } from 'node:fs/promises';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { diskError, helperEnvironment } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { type ByteString, showPath, type TarEntry } from './entry.ts';

/**
 * What an entry says of a file that is there. Owner first: that clears setuid bits and capabilities. As an ordinary
 * user owners stay as they are.
 */
export async function writeAttributes(root: string, entry: TarEntry): Promise<void> {
  const path = pathIn(root, entry.path);
  if (process.getuid?.() === 0) await lchown(path, entry.uid, entry.gid);
  for (const [name, value] of entry.xattrs ?? []) {
    await runOn('setfattr', ['-h', '-n', name, '-v', `0x${value.toString('hex')}`, path]);
  }
  const seconds = entry.mtime.seconds + entry.mtime.nanos / 1e9;
  // Node takes a negative number as "now", and a Date as what it says.
  const time = seconds < 0 ? new Date(seconds * 1000) : seconds;
  if (entry.type === 'symlink') return await lutimes(path, time, time);
  await chmod(path, entry.mode);
  await utimes(path, time, time);
}

/** What a sink that writes files throws for a fault of the disk; the faults of an entry's body come through as they are. */
export function writeFault(error: unknown, root: string, entry: TarEntry): unknown {
  if (isSkycapError(error)) return error;
  const full = diskError(error, root);
  if (full !== error || typeof (error as { code?: unknown }).code !== 'string') return full;
  const what = `${showPath(entry.path)} could not be written: ${(error as Error).message}`;
  return ociError('OCI_LAYER_WRITE', what, { cause: error });
}

export function pathIn(root: string, path: ByteString): Buffer {
  if (isRoot(path)) return Buffer.from(root);
  return Buffer.concat([Buffer.from(`${root}/`), Buffer.from(path, 'latin1')]);
}

export function isRoot(path: ByteString): boolean {
  return path === '' || path === '.';
}

/** Arguments are bytes, and Node gives strings: so they go in by a shell that reads them as they are. */
export async function runOn(program: string, args: readonly (string | Buffer)[]): Promise<void> {
  const words = args.map((word) => (typeof word === 'string' ? Buffer.from(word) : word));
  const script = Buffer.concat([Buffer.from(`exec ${program}`), ...words.map(shellWord)]);
  const code = await new Promise<number>((resolve) => {
    const child = spawn('sh', [], { stdio: ['pipe', 'ignore', 'ignore'], env: helperEnvironment() });
    child.on('error', () => resolve(127));
    child.on('close', (status) => resolve(status ?? -1));
    child.stdin.on('error', () => {});
    child.stdin.end(script);
  });
  if (code === 127) {
    throw kernelError('PROGRAM_MISSING', `${program} is needed to unpack a layer and is not installed`, {
      hint: 'install GNU tar',
    });
  }
  if (code !== 0) throw ociError('OCI_LAYER_WRITE', `${program} failed with exit status ${code}`);
}

export function shellWord(word: Buffer): Buffer {
  return Buffer.from(` '${word.toString('latin1').replaceAll("'", "'\\''")}'`, 'latin1');
}
