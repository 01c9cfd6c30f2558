import { existsSync, lstatSync, readFileSync, readlinkSync } from 'node:fs';
import { release } from 'node:os';
import { join, resolve } from 'node:path';
import type { LowerForm } from '../../oci/index.ts';

export interface FormFacts {
  readonly uid: number;
  /** The text of /proc/self/uid_map. */
  readonly uidMap: string;
  /** The text of /proc/filesystems. */
  readonly fileSystems: string;
  /** Whether the kernel could load a module for EROFS. */
  readonly loadable: boolean;
  /** The store's folder, last, and before it all that leads there: folders and links. */
  readonly store: readonly EntryFacts[];
}

export interface EntryFacts {
  readonly path: string;
  readonly uid: number;
  /** With the type, as lstat(2) has it. */
  readonly mode: number;
}

/**
 * Why layers are to be folders, or undefined where they can be file-system images. The kernel's code for a file system
 * trusts what it reads, so only what root wrote where nobody else could touch it is mounted (docs/security.md, S35).
 */
export function whyFolders(facts: FormFacts): string | undefined {
  const initial = facts.uidMap.trim().split(/\s+/).join(' ') === '0 0 4294967295';
  if (facts.uid !== 0 || !initial)
    return 'only root, outside of user namespaces, can mount a file-system image';
  const store = facts.store.at(-1);
  if (store === undefined || store.uid !== 0 || (store.mode & (S_IFMT | 0o077)) !== S_IFDIR)
    return `others than root can reach into the store, ${NOT_MOUNTED}`;
  const open = facts.store.find((entry) => !isRootsAlone(entry));
  if (open !== undefined)
    return `others than root can change where ${open.path} leads, which is on the way to the store, ${NOT_MOUNTED}`;
  const known = facts.fileSystems.split('\n').some((line) => line.trim() === 'erofs');
  return known || facts.loadable ? undefined : 'this kernel has no EROFS';
}

const NOT_MOUNTED = 'and what they could have written is not mounted';
const S_IFMT = 0o170000;
const S_IFDIR = 0o040000;
const S_IFLNK = 0o120000;

/**
 * Whether only root can change where a folder's entries or a link lead. In a sticky folder others make entries of
 * their own, but neither rename nor replace root's.
 */
function isRootsAlone({ uid, mode }: EntryFacts): boolean {
  if (uid !== 0) return false;
  const type = mode & S_IFMT;
  return type === S_IFLNK || (type === S_IFDIR && ((mode & 0o022) === 0 || (mode & 0o1000) !== 0));
}

/** How one engine has its layers. A refused mount is not tried again: what is refused once will be again. */
export class LayerForm {
  readonly #because: () => string | undefined;
  #decided: { readonly because: string | undefined } | undefined;

  constructor(because: () => string | undefined) {
    this.#because = because;
  }

  /** Looks at this host. */
  static of(store: string): LayerForm {
    return new LayerForm(() => whyFolders(readFacts(store)));
  }

  get form(): LowerForm {
    return this.because === undefined ? 'erofs' : 'folder';
  }

  get because(): string | undefined {
    this.#decided ??= { because: this.#because() };
    return this.#decided.because;
  }

  refuse(because: string): void {
    this.#decided = { because };
  }
}

function readFacts(store: string): FormFacts {
  const modules = `/lib/modules/${release()}`;
  return {
    uid: process.getuid?.() ?? -1,
    uidMap: textOf('/proc/self/uid_map'),
    fileSystems: textOf('/proc/filesystems'),
    loadable:
      existsSync(`${modules}/kernel/fs/erofs`) || /\/erofs\.ko/.test(textOf(`${modules}/modules.builtin`)),
    store: entriesTo(store),
  };
}

/**
 * Every folder and link on the way to a folder, which comes last; none is followed unseen.
 *
 * @throws ENOENT, ENOTDIR, ELOOP as the kernel does
 */
export function entriesTo(folder: string): readonly EntryFacts[] {
  const seen: EntryFacts[] = [];
  let links = 0;
  let path = '/';
  const left = namesIn(resolve(folder));
  const look = (at: string): EntryFacts => {
    const { uid, mode } = lstatSync(at);
    seen.push({ path: at, uid, mode });
    return seen.at(-1) as EntryFacts;
  };
  look(path);
  for (let name = left.shift(); name !== undefined; name = left.shift()) {
    const next = join(path, name);
    if ((look(next).mode & S_IFMT) !== S_IFLNK) {
      path = next;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) throw new Error(`ELOOP: too many links, ${folder}`);
    const target = readlinkSync(next);
    if (target.startsWith('/')) path = '/';
    left.unshift(...namesIn(target));
  }
  return seen;
}

/** As many as the kernel follows (path_resolution(7)). */
const MAX_LINKS = 40;

function namesIn(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
