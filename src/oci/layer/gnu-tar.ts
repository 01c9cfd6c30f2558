import { type ChildProcess, spawn } from 'node:child_process';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import type { TarEntry } from './entry.ts';
import type { LayerSink } from './sink.ts';
import { writeAttributes } from './write-attributes.ts';
import { encodeEntry, endOfArchive, FOR_GNU_TAR, padding } from './writer.ts';

/** Pieces smaller than this are gathered: a layer of small files is mostly headers and padding. */
const GATHER = 256 * 1024;
const STDERR_LIMIT = 4096;

let found: Promise<boolean> | undefined;

/** GNU tar writes small files faster than Node does, several layers at once. Asked once a process. */
export function hasGnuTar(): Promise<boolean> {
  found ??= findGnuTar();
  return found;
}

export function findGnuTar(): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn('tar', ['--version'], {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: tarEnvironment(),
      detached: true,
    });
    let text = '';
    child.on('error', () => resolve(false));
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    child.on('close', () => resolve(text.startsWith('tar (GNU tar)')));
  });
}

/** A clean environment: TAR_OPTIONS and the locale change what tar does. */
export function tarEnvironment(): Record<string, string> {
  return { PATH: process.env.PATH ?? '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
}

const EXTRACT = [
  '--extract',
  '--file=-',
  // Our stream has checked every name, so tar's own protections would only defer links and lose time.
  '--absolute-names',
  '--numeric-owner',
  '--preserve-permissions',
  '--delay-directory-restore',
  '--xattrs',
  '--xattrs-include=*',
  '--no-acls',
  '--no-selinux',
  '--warning=no-timestamp',
  '--blocking-factor=256',
];

/** One `tar --extract` fed with checked entries. As an ordinary user everything belongs to that user. */
export class GnuTarSink implements LayerSink {
  readonly #child: ChildProcess;
  readonly #closed: Promise<number>;
  readonly #directory: string;
  readonly #restamped: TarEntry[] = [];
  #stderr = '';
  #failure: Error | undefined;
  #gathered = Buffer.allocUnsafe(GATHER);
  #used = 0;
  #written: Promise<void> = Promise.resolve();

  constructor(directory: string) {
    this.#directory = directory;
    const owner = process.getuid?.() === 0 ? '--same-owner' : '--no-same-owner';
    const child = spawn('tar', [...EXTRACT, owner, '-C', directory], {
      stdio: ['pipe', 'ignore', 'pipe'],
      env: tarEnvironment(),
      // In a group of its own: Ctrl-C in a terminal would reach tar first, and its end would be the error.
      detached: true,
    });
    this.#child = child;
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      this.#stderr = (this.#stderr + chunk).slice(0, STDERR_LIMIT);
    });
    // What went wrong is told by the exit status; EPIPE only says that there is one.
    child.stdin.on('error', () => {});
    this.#closed = new Promise((resolve) => {
      child.on('error', (error) => {
        this.#failure = error;
        resolve(-1);
      });
      child.on('close', (code) => resolve(code ?? -1));
    });
  }

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    const stored = onDisk(entry);
    await this.#write(encodeEntry(stored, FOR_GNU_TAR));
    if (stored.size === 0) return;
    for (let part = await next(); part !== undefined; part = await next()) await this.#write(part);
    await this.#write(padding(stored.size));
  }

  /** tar gives a hard link's file no attributes but its first, so these are written when tar is done. */
  async restamp(entry: TarEntry): Promise<void> {
    this.#restamped.push(entry);
  }

  async finish(): Promise<void> {
    await this.#write(endOfArchive());
    await this.#flush();
    this.#child.stdin?.end();
    const code = await this.#closed;
    if (code !== 0) throw this.#error(code);
    for (const entry of this.#restamped) await writeAttributes(this.#directory, entry);
  }

  async abort(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#closed;
  }

  async #write(part: Buffer): Promise<void> {
    if (part.length > GATHER / 4) {
      await this.#flush();
      await this.#send(part);
      return;
    }
    if (this.#used + part.length > GATHER) await this.#flush();
    part.copy(this.#gathered, this.#used);
    this.#used += part.length;
  }

  async #flush(): Promise<void> {
    if (this.#used === 0) return;
    const part = this.#gathered.subarray(0, this.#used);
    this.#gathered = Buffer.allocUnsafe(GATHER);
    this.#used = 0;
    await this.#send(part);
  }

  async #send(part: Buffer): Promise<void> {
    const stdin = this.#child.stdin;
    if (stdin === null || stdin.destroyed || stdin.errored !== null) throw this.#error(await this.#closed);
    const before = this.#written;
    this.#written = new Promise((resolve) => {
      stdin.write(part, () => resolve());
    });
    // One piece ahead, so that tar has work while the next is made. A tar that ends lets go of what was not written.
    await before;
  }

  #error(code: number): Error {
    if (this.#failure !== undefined) {
      return kernelError('PROGRAM_MISSING', 'tar cannot be started', {
        hint: 'install GNU tar',
        cause: this.#failure,
      });
    }
    // A write that fits in part ends in "Wrote only 4096 of 10240 bytes".
    if (/No space left on device|Disk quota exceeded|Wrote only/.test(this.#stderr)) {
      return kernelError('DISK_FULL', `no space left while unpacking a layer into ${this.#directory}`, {
        hint: 'free some space there and run the same command again; what was complete is kept',
      });
    }
    const said = this.#stderr.split('\n').find((line) => line !== '') ?? `exit status ${code}`;
    return ociError('OCI_LAYER_WRITE', `a layer could not be written to ${this.#directory}: ${said}`, {
      hint: 'look at the message of tar; the file system may lack device files or extended attributes',
      details: { exitCode: code, stderr: this.#stderr },
    });
  }
}

function onDisk(entry: TarEntry): TarEntry {
  // The root's own entry is the folder itself; a name that starts with `-` is data for tar, not an option.
  return entry.path === '.' || entry.path === '' ? { ...entry, path: './' } : entry;
}
