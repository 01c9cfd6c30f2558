import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import type { ByteString, TarEntry } from './entry.ts';
import { BLOCK } from './header.ts';
import type { LayerSink } from './sink.ts';
import { TarProcess, tarEnvironment } from './tar-process.ts';
import { writeAttributes } from './write-attributes.ts';
import { encodeEntry, FOR_GNU_TAR, padding } from './writer.ts';

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

/** So many files cost as much as to start a process for them. */
const ALONE = 200;
/** Pieces that one of two may lag behind: 2 MiB, as much as a large folder that is all for the other one. */
const AHEAD = 8;

/**
 * Checked entries for GNU tar: for two of it where there are many files and two processors, as the kernel makes files
 * in different folders at once. Both get all directories, because tar gives up where another one makes a directory
 * just before itself; the first ends last, and so sets them as they are to be when nothing is put into them any more.
 */
export class GnuTarSink implements LayerSink {
  readonly #directory: string;
  readonly #first: TarProcess;
  /** An ordinary user could not write into what the other process has closed already. */
  readonly #mayBeTwo = availableParallelism() > 1 && process.getuid?.() === 0;
  #second: TarProcess | undefined;
  #count = 0;
  /** Of the time before the second. */
  #directories: TarEntry[] = [];
  /** Files that another process has than their names say: names of hard links, and what came before the second. */
  readonly #elsewhere = new Map<ByteString, TarProcess>();
  readonly #restamped: TarEntry[] = [];
  /** For one after the other: what is written is copied. */
  readonly #header = Buffer.allocUnsafe(BLOCK);

  constructor(directory: string) {
    this.#directory = directory;
    this.#first = new TarProcess(directory);
  }

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    const stored = onDisk(entry);
    if (stored.type === 'directory') return await this.#putDirectory(stored);
    if (this.#count === ALONE && this.#mayBeTwo) await this.#startSecond();
    const tar = this.#tarFor(stored);
    await tar.write(encodeEntry(stored, FOR_GNU_TAR));
    if (stored.size === 0) return;
    for (let part = await next(); part !== undefined; part = await next()) await tar.write(part);
    await tar.write(padding(stored.size));
  }

  putNow(entry: TarEntry, body: Buffer): boolean {
    const { type } = entry;
    if (type === 'directory' || type === 'link' || this.#count === ALONE) return false;
    const tar = this.#tarOf(entry.path);
    if (!tar.writeNow(encodeEntry(entry, FOR_GNU_TAR, this.#header), body)) return false;
    this.#count++;
    this.#note(entry.path, tar);
    return true;
  }

  /** tar gives a hard link's file no attributes but its first, so these are written when tar is done. */
  async restamp(entry: TarEntry): Promise<void> {
    this.#restamped.push(entry);
  }

  async finish(): Promise<void> {
    await this.#second?.end();
    await this.#first.end();
    for (const entry of this.#restamped) await writeAttributes(this.#directory, entry);
  }

  async abort(): Promise<void> {
    await Promise.all([this.#first.kill(), this.#second?.kill()]);
  }

  async #putDirectory(entry: TarEntry): Promise<void> {
    await this.#first.write(encodeEntry(entry, FOR_GNU_TAR));
    if (this.#second !== undefined) await this.#second.write(encodeEntry(bare(entry), FOR_GNU_TAR));
    else if (this.#mayBeTwo) this.#directories.push(entry);
  }

  async #startSecond(): Promise<void> {
    this.#second = new TarProcess(this.#directory);
    this.#first.ahead = AHEAD;
    this.#second.ahead = AHEAD;
    for (const entry of this.#directories) await this.#second.write(encodeEntry(bare(entry), FOR_GNU_TAR));
    this.#directories = [];
  }

  #tarFor({ path, type, linkPath }: TarEntry): TarProcess {
    this.#count++;
    // A hard link goes where its file went.
    const tar = this.#tarOf(type === 'link' ? linkPath : path);
    this.#note(path, tar);
    return tar;
  }

  #tarOf(path: ByteString): TarProcess {
    return this.#elsewhere.get(path) ?? ((this.#isSecond(path) && this.#second) || this.#first);
  }

  #note(path: ByteString, tar: TarProcess): void {
    if (this.#isSecond(path) !== (tar === this.#second)) this.#elsewhere.set(path, tar);
  }

  /** All files of a folder go to one process: two of them would wait for each other there. */
  #isSecond(path: ByteString): boolean {
    return this.#mayBeTwo && isOdd(path, path.lastIndexOf('/'));
  }
}

/**
 * A directory for the second process, which sets it while the first is still at work in it: nothing that files inherit
 * (default access control lists), and nothing that closes it.
 */
function bare({ xattrs: _xattrs, ...entry }: TarEntry): TarEntry {
  return { ...entry, mode: 0o700, uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 };
}

/** Half of all folders, by their names. */
function isOdd(text: string, length: number): boolean {
  let hash = 0;
  for (let at = 0; at < length; at++) hash = (hash * 31 + text.charCodeAt(at)) | 0;
  return ((hash ^ (hash >> 15)) & 1) === 1;
}

function onDisk(entry: TarEntry): TarEntry {
  // The root's own entry is the folder itself; a name that starts with `-` is data for tar, not an option.
  return entry.path === '.' || entry.path === '' ? { ...entry, path: './' } : entry;
}
