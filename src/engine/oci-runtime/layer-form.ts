import { existsSync, readFileSync, statSync } from 'node:fs';
import { release } from 'node:os';
import type { LowerForm } from '../../oci/index.ts';

export interface FormFacts {
  readonly uid: number;
  /** The text of /proc/self/uid_map. */
  readonly uidMap: string;
  /** The text of /proc/filesystems. */
  readonly fileSystems: string;
  /** Whether the kernel could load a module for EROFS. */
  readonly loadable: boolean;
  /** Owner and mode of the store's folder. */
  readonly store: { readonly uid: number; readonly mode: number };
}

/**
 * Why layers are to be folders, or undefined where they can be file-system images. The kernel's code for a file system
 * trusts what it reads, so only what root wrote where nobody else could touch it is mounted (docs/security.md, S35).
 */
export function whyFolders(facts: FormFacts): string | undefined {
  const initial = facts.uidMap.trim().split(/\s+/).join(' ') === '0 0 4294967295';
  if (facts.uid !== 0 || !initial)
    return 'only root, outside of user namespaces, can mount a file-system image';
  if (facts.store.uid !== 0 || (facts.store.mode & 0o077) !== 0)
    return 'others than root can reach into the store, and what they could have written is not mounted';
  const known = facts.fileSystems.split('\n').some((line) => line.trim() === 'erofs');
  return known || facts.loadable ? undefined : 'this kernel has no EROFS';
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
  const { uid, mode } = statSync(store);
  const modules = `/lib/modules/${release()}`;
  return {
    uid: process.getuid?.() ?? -1,
    uidMap: textOf('/proc/self/uid_map'),
    fileSystems: textOf('/proc/filesystems'),
    loadable:
      existsSync(`${modules}/kernel/fs/erofs`) || /\/erofs\.ko/.test(textOf(`${modules}/modules.builtin`)),
    store: { uid, mode },
  };
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
