import {
  type BigIntStats,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmdirSync,
  type Stats,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs';

const OPEN_FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * A directory by handle. Names are looked up below the handle through /proc/self/fd, one component at a time and
 * never through a link, so that what a container left there cannot lead anywhere else (openat(2) by other means:
 * Node has none).
 */
export class Folder implements Disposable {
  #fd: number;

  private constructor(fd: number) {
    this.#fd = fd;
  }

  /** A path of our own making: links in it are followed. */
  static open(path: string): Folder {
    return new Folder(openSync(path, constants.O_RDONLY | constants.O_DIRECTORY));
  }

  [Symbol.dispose](): void {
    if (this.#fd === -1) return;
    closeSync(this.#fd);
    this.#fd = -1;
  }

  /** The path of an entry for one system call; `name` is a single component. */
  at(name: string): string {
    if (name === '' || name === '.' || name === '..' || name.includes('/'))
      throw new Error(`not one name: ${name}`);
    return `/proc/self/fd/${this.#fd}/${name}`;
  }

  self(): Stats {
    return fstatSync(this.#fd);
  }

  names(): string[] {
    return readdirSync(`/proc/self/fd/${this.#fd}`).sort();
  }

  /** Of the entry itself, links not followed. */
  stat(name: string): Stats | undefined {
    return lstatSync(this.at(name), { throwIfNoEntry: false });
  }

  bigStat(name: string): BigIntStats | undefined {
    return lstatSync(this.at(name), { throwIfNoEntry: false, bigint: true });
  }

  /** @throws ELOOP or ENOTDIR for anything that is no directory */
  child(name: string): Folder {
    return new Folder(openSync(this.at(name), OPEN_FOLDER));
  }

  childIfAny(name: string): Folder | undefined {
    return this.stat(name)?.isDirectory() === true ? this.child(name) : undefined;
  }

  makeChild(name: string, mode: number, owner?: Owner): Folder {
    mkdirSync(this.at(name), 0o700);
    const made = this.child(name);
    if (owner !== undefined) fchownSync(made.#fd, owner.uid, owner.gid);
    fchmodSync(made.#fd, mode);
    return made;
  }

  chmodSelf(mode: number): void {
    fchmodSync(this.#fd, mode);
  }

  chownSelf(owner: Owner): void {
    fchownSync(this.#fd, owner.uid, owner.gid);
  }

  /** A new file; the caller closes the descriptor. */
  createFile(name: string): number {
    return openSync(
      this.at(name),
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      0o600,
    );
  }

  /** Opened so that neither a link, a FIFO nor a device can do harm; the caller checks with fstat what it got. */
  openFile(name: string): number {
    return openSync(this.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  }

  symlink(name: string, target: string): void {
    symlinkSync(target, this.at(name));
  }

  readLink(name: string): string {
    return readlinkSync(this.at(name));
  }

  hardLink(name: string, from: Folder, fromName: string): void {
    linkSync(from.at(fromName), this.at(name));
  }

  remove(name: string): void {
    const found = this.stat(name);
    if (found === undefined) return;
    if (!found.isDirectory()) {
      unlinkSync(this.at(name));
      return;
    }
    {
      using folder = this.child(name);
      for (const inner of folder.names()) folder.remove(inner);
    }
    rmdirSync(this.at(name));
  }

  writeNew(name: string, content: Uint8Array, attributes: Owner & { readonly mode: number }): void {
    const fd = this.createFile(name);
    try {
      for (let done = 0; done < content.length; ) done += writeSync(fd, content, done);
      fchownSync(fd, attributes.uid, attributes.gid);
      fchmodSync(fd, attributes.mode);
    } finally {
      closeSync(fd);
    }
  }

  chmodChild(name: string, mode: number): void {
    chmodSync(this.at(name), mode);
  }

  chownChild(name: string, owner: Owner): void {
    chownSync(this.at(name), owner.uid, owner.gid);
  }
}

export function parts(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}

/** The folder at a relative path, or undefined where a component is missing, a link or no folder. */
export function descend(root: string, path: readonly string[]): Folder | undefined {
  let folder = Folder.open(root);
  for (const name of path) {
    using above = folder;
    const next = above.childIfAny(name);
    if (next === undefined) return undefined;
    folder = next;
  }
  return folder;
}
