import { type ChildProcess, spawn } from 'node:child_process';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { letGo } from './memory.ts';
import { pad } from './reader.ts';
import { endOfArchive } from './writer.ts';

/** Pieces smaller than this are gathered: a layer of small files is mostly headers and padding. */
const GATHER = 256 * 1024;
const STDERR_LIMIT = 4096;

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

/** One `tar --extract` that is fed with an archive as it comes. As an ordinary user everything belongs to that user. */
export class TarProcess {
  readonly #child: ChildProcess;
  readonly #closed: Promise<number>;
  readonly #directory: string;
  #stderr = '';
  #failure: Error | undefined;
  #gathered = Buffer.allocUnsafe(GATHER);
  /** Written and to be filled anew: memory that was never touched costs more than what goes into it. */
  readonly #free: Buffer<ArrayBuffer>[] = [];
  #used = 0;
  readonly #written: Promise<void>[] = [];
  /** How many pieces it may lag behind. */
  ahead = 1;

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

  /** The end of the archive, and of tar. @throws DISK_FULL, OCI_LAYER_WRITE, PROGRAM_MISSING */
  async end(): Promise<void> {
    await this.write(endOfArchive());
    await this.#flush();
    this.#child.stdin?.end();
    const code = await this.#closed;
    if (code !== 0) throw this.#error(code);
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#closed;
  }

  /** A header and a body, rounded up to whole blocks, where there is room for them: whether there was. */
  writeNow(header: Buffer, body: Buffer): boolean {
    const end = this.#used + header.length + body.length;
    const next = end + pad(body.length);
    if (next > GATHER) return false;
    header.copy(this.#gathered, this.#used);
    body.copy(this.#gathered, this.#used + header.length);
    this.#gathered.fill(0, end, next);
    this.#used = next;
    return true;
  }

  async write(part: Buffer): Promise<void> {
    if (part.length > GATHER / 4) {
      await this.#flush();
      await this.#send(part, () => letGo(part));
      return;
    }
    if (this.#used + part.length > GATHER) await this.#flush();
    part.copy(this.#gathered, this.#used);
    this.#used += part.length;
  }

  async #flush(): Promise<void> {
    if (this.#used === 0) return;
    const full = this.#gathered;
    const part = full.subarray(0, this.#used);
    this.#gathered = this.#free.pop() ?? Buffer.allocUnsafe(GATHER);
    this.#used = 0;
    await this.#send(part, () => this.#free.push(full));
  }

  async #send(part: Buffer, then = (): unknown => undefined): Promise<void> {
    const stdin = this.#child.stdin;
    if (stdin === null || stdin.destroyed || stdin.errored !== null) throw this.#error(await this.#closed);
    this.#written.push(
      new Promise((resolve) => {
        stdin.write(part, () => {
          then();
          resolve();
        });
      }),
    );
    // So that tar has work while the next piece is made. A tar that ends lets go of what was not written.
    if (this.#written.length > this.ahead) await this.#written.shift();
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
