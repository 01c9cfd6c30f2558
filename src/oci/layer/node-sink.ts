import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { chmod, lchown, link, lutimes, mkdir, open, symlink, utimes } from 'node:fs/promises';
import { kernelError } from '../../kernel/index.ts';
import { diskError } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { type ByteString, showPath, type TarEntry } from './entry.ts';
import { tarEnvironment } from './gnu-tar.ts';
import type { LayerSink } from './sink.ts';

/**
 * Writes a layer by Node's own calls, for hosts without GNU tar. Slower for small files. Node can neither make
 * devices nor set extended attributes, so `mknod` and `setfattr` do that, and are asked for by name where missing.
 */
export class NodeSink implements LayerSink {
  readonly #root: string;
  readonly #owned: boolean;
  readonly #directories = new Map<ByteString, TarEntry>();

  constructor(root: string) {
    this.#root = root;
    this.#owned = process.getuid?.() === 0;
  }

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    try {
      await this.#make(entry, next);
    } catch (error) {
      const full = diskError(error, this.#root);
      if (full !== error || typeof (error as { code?: unknown }).code !== 'string') throw full;
      throw ociError(
        'OCI_LAYER_WRITE',
        `${showPath(entry.path)} could not be written: ${(error as Error).message}`,
        {
          cause: error,
        },
      );
    }
  }

  async finish(): Promise<void> {
    // Deepest first: setting what is in a folder changes the folder's time.
    const byDepth = [...this.#directories.values()].toReversed();
    for (const entry of byDepth) await this.#attributes(entry);
  }

  async abort(): Promise<void> {}

  async #make(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    const path = this.#path(entry.path);
    if (entry.type === 'directory') {
      if (!this.#directories.has(entry.path) && !isRoot(entry.path)) await mkdir(path, 0o700);
      this.#directories.set(entry.path, entry);
      return;
    }
    if (entry.type === 'link') return await link(this.#path(entry.linkPath), path);
    if (entry.type === 'symlink') await symlink(Buffer.from(entry.linkPath, 'latin1'), path);
    else if (entry.type === 'file') await writeBody(path, next);
    else await run('mknod', [path, ...nodeArguments(entry)]);
    await this.#attributes(entry);
  }

  /** Owner first: it clears setuid bits and capabilities. */
  async #attributes(entry: TarEntry): Promise<void> {
    const path = this.#path(entry.path);
    if (this.#owned) await lchown(path, entry.uid, entry.gid);
    for (const [name, value] of entry.xattrs ?? []) {
      await run('setfattr', ['-h', '-n', name, '-v', `0x${value.toString('hex')}`, path]);
    }
    const seconds = entry.mtime.seconds + entry.mtime.nanos / 1e9;
    // Node takes a negative number as "now", and a Date as what it says.
    const time = seconds < 0 ? new Date(seconds * 1000) : seconds;
    if (entry.type === 'symlink') return await lutimes(path, time, time);
    await chmod(path, entry.mode);
    await utimes(path, time, time);
  }

  #path(path: ByteString): Buffer {
    if (isRoot(path)) return Buffer.from(this.#root);
    return Buffer.concat([Buffer.from(`${this.#root}/`), Buffer.from(path, 'latin1')]);
  }
}

function isRoot(path: ByteString): boolean {
  return path === '' || path === '.';
}

async function writeBody(path: Buffer, next: () => Promise<Buffer | undefined>): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(path, flags, 0o600);
  try {
    for (let part = await next(); part !== undefined; part = await next()) {
      for (let at = 0; at < part.length; ) at += (await handle.write(part, at)).bytesWritten;
    }
  } finally {
    await handle.close();
  }
}

function nodeArguments(entry: TarEntry): readonly string[] {
  if (entry.type === 'fifo') return ['p'];
  return [entry.type === 'char' ? 'c' : 'b', String(entry.devMajor), String(entry.devMinor)];
}

/** Arguments are bytes, and Node gives strings: so they go in by a shell that reads them as they are. */
async function run(program: string, args: readonly (string | Buffer)[]): Promise<void> {
  const words = args.map((word) => (typeof word === 'string' ? Buffer.from(word) : word));
  const script = Buffer.concat([Buffer.from(`exec ${program}`), ...words.map(quote)]);
  const code = await new Promise<number>((resolve) => {
    const child = spawn('sh', [], { stdio: ['pipe', 'ignore', 'ignore'], env: tarEnvironment() });
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

function quote(word: Buffer): Buffer {
  return Buffer.from(` '${word.toString('latin1').replaceAll("'", "'\\''")}'`, 'latin1');
}
