import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exited, isAlive, type ProcessIdentity, processIdentity } from '../../kernel/system/index.ts';
import { engineError } from '../errors.ts';
import { holderScript } from './holder.sh.ts';

/** Where containers' roots are mounted in the holder's namespace (holder.sh.ts says why there). */
export const ROOTS = '/sys/fs/cgroup/m';

export interface HolderOptions {
  /** The run's folder on a tmpfs. */
  readonly runFolder: string;
  /** Number of this holder in the run: an adopted run gets another one. */
  readonly generation: number;
  readonly outputFolder: string;
  readonly stateDirectory: string;
  readonly runtime: string;
  /** Path of the program of init/mount.c. */
  readonly mountProgram: string;
  readonly network: boolean;
  readonly onNotice: (message: string) => void;
}

interface Waiter<T> {
  readonly resolve: (answer: T) => void;
  readonly reject: (cause: Error) => void;
}

/** The shell that owns a session's mount namespace (holder.sh.ts), and the orders it takes. */
export class Holder {
  readonly folder: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<string, Waiter<void>>();
  readonly #images = new Map<string, Waiter<string | undefined>>();
  readonly #onNotice: (message: string) => void;
  readonly #ready = Promise.withResolvers<void>();
  #rest = '';
  /** Set when it has ended: nobody answers from then on. */
  #gone: Error | undefined;

  private constructor(folder: string, child: ChildProcess, onNotice: (message: string) => void) {
    this.folder = folder;
    this.#child = child;
    this.#onNotice = onNotice;
    child.stdout?.setEncoding('utf8');
    child.stdout?.on('data', (text: string) => this.#hear(text));
    child.stdin?.on('error', () => {});
    void exited(child).then((code) => {
      const gone = goneError(`ended with ${code}`);
      this.#gone = gone;
      this.#ready.reject(gone);
      for (const waiter of [...this.#waiting.values(), ...this.#images.values()]) waiter.reject(gone);
      this.#waiting.clear();
      this.#images.clear();
    });
    // Nobody may be waiting yet; `ready` is where this is thrown.
    this.#ready.promise.catch(() => {});
  }

  static start(options: HolderOptions): Holder {
    const folder = join(options.runFolder, `h${options.generation}`);
    mkdirSync(folder, { mode: 0o711 });
    chmodSync(folder, 0o711);
    for (const name of ['cg', 'b', 'r', 'c', 'l']) mkdirSync(join(folder, name), { mode: 0o711 });
    for (const name of ['b', 'r', 'c']) chmodSync(join(folder, name), 0o711);
    mkdirSync(join(folder, 'l', 'empty'));
    symlinkSync(ROOTS, join(folder, 'm'));
    mkdirSync(join(options.runFolder, 'c'), { recursive: true, mode: 0o700 });
    const script = join(folder, 'holder.sh');
    writeFileSync(script, holderScript, { mode: 0o600 });
    const child = spawn(
      'unshare',
      [
        '--mount',
        '--propagation',
        'private',
        'sh',
        script,
        options.runFolder,
        folder,
        options.outputFolder,
        options.stateDirectory,
        options.runtime,
        options.network ? 'network' : '-',
        options.mountProgram,
      ],
      {
        detached: true,
        cwd: '/',
        stdio: ['pipe', 'pipe', 'ignore'],
        // Nothing of the user's environment, secrets least of all, goes to a process that outlives the command.
        env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
      },
    );
    return new Holder(folder, child, options.onNotice);
  }

  /** @throws ENGINE_SESSION_FAILED, ENGINE_NETWORK_UNAVAILABLE */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** A path in the holder's mount namespace, as this process reaches it. */
  inside(path: string): string {
    return `/proc/${this.pid}/root${path}`;
  }

  /** @returns ENGINE_SESSION_FAILED where it has ended, whether or not that was noticed; undefined while it lives */
  whyGone(): Error | undefined {
    if (this.#gone !== undefined) return this.#gone;
    return recordedAlive(join(this.folder, 'holder')) ? undefined : goneError('is gone');
  }

  order(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Mounts an overlay at `m/NAME` in the holder's folder. */
  mount(name: string, lowers: string): Promise<void> {
    return this.#ask(this.#waiting, `mounted ${name}`, `mount ${name} ${lowers}`);
  }

  /**
   * Mounts a file-system image at `l/NAME` in the holder's folder.
   *
   * @returns why that cannot be done, or undefined
   */
  mountImage(name: string, path: string): Promise<string | undefined> {
    return this.#ask(this.#images, name, `erofs ${name} ${path}`);
  }

  unmount(names: readonly string[]): Promise<void> {
    return this.#many('umount', 'unmounted', names);
  }

  /** Unmounts overlays and deletes their writable layers. */
  drop(names: readonly string[]): Promise<void> {
    return this.#many('drop', 'dropped', names);
  }

  #many(order: string, answer: string, names: readonly string[]): Promise<void> {
    const list = names.join(' ');
    // If the holder is gone, so are its mounts; what lies on disk goes with the run's folder.
    return this.#ask(this.#waiting, `${answer} ${list}`, `${order} ${list}`).catch(() => {});
  }

  #ask<T>(waiting: Map<string, Waiter<T>>, answer: string, order: string): Promise<T> {
    if (this.#gone !== undefined) return Promise.reject(this.#gone);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    waiting.set(answer, { resolve, reject });
    this.order(order);
    return promise;
  }

  /** Tells it that no more orders come, and waits for its end: after its containers'. */
  async end(): Promise<void> {
    this.#child.stdin?.end();
    await exited(this.#child);
  }

  /** Lets this process end while the holder goes on. */
  unref(): void {
    this.#child.unref();
  }

  #hear(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() as string;
    for (const raw of lines) {
      const line = raw.trimEnd();
      const [word = '', name = ''] = line.split(' ', 2);
      if (word === 'ready') this.#ready.resolve();
      else if (word === 'failed') this.#ready.reject(setupError(line.slice(7)));
      else if (word === 'notice') this.#onNotice(line.slice(7));
      else if (word === 'lower' || word === 'nolower') {
        const refusal = word === 'lower' ? undefined : line.slice(9 + name.length);
        this.#images.get(name)?.resolve(refusal);
        this.#images.delete(name);
      } else if (word === 'nomount') {
        this.#waiting
          .get(`mounted ${name}`)
          ?.reject(
            engineError(
              'ENGINE_SESSION_FAILED',
              `the layers could not be mounted: ${line.slice(9 + name.length)}`,
            ),
          );
        this.#waiting.delete(`mounted ${name}`);
      } else {
        this.#waiting.get(line)?.resolve();
        this.#waiting.delete(line);
      }
    }
  }
}

function goneError(how: string): Error {
  return engineError('ENGINE_SESSION_FAILED', `the shell that holds the session ${how}`, {
    hint: 'look for out-of-memory or kill messages on this host, then run again',
  });
}

function setupError(reason: string): Error {
  if (/^(slirp4netns|network):/.test(reason) || reason.includes('slirp4netns')) {
    return engineError('ENGINE_NETWORK_UNAVAILABLE', `no network for the steps: ${reason}`, {
      hint: 'install slirp4netns and iproute2 (apt-get install slirp4netns iproute2), see that /dev/net/tun exists, or allow the host network',
    });
  }
  return engineError('ENGINE_SESSION_FAILED', `the session could not be mounted: ${reason}`, {
    hint: 'mounting needs root and a kernel with overlayfs; `skycap doctor` says more',
  });
}

/** The process of a line that it wrote from its own /proc/self/stat; undefined if the file is not there. */
export function recordedProcess(file: string): ProcessIdentity | undefined {
  let line: string;
  try {
    line = readFileSync(file, 'latin1');
  } catch {
    return undefined;
  }
  return line.endsWith('\n') ? processIdentity(line) : undefined;
}

export function recordedAlive(file: string): boolean {
  const recorded = recordedProcess(file);
  return recorded !== undefined && isAlive(recorded);
}
