import { closeSync, fstatSync, readSync } from 'node:fs';
import { engineError } from '../errors.ts';
import type { CollectedFile, CollectRequest } from '../port.ts';
import { walk } from './contents.ts';
import { descend, type Folder, parts } from './folder.ts';

/** Where a path of a container lies on this host: `names` below `root`, none of which may be a link. */
export interface CollectSource {
  readonly root: string;
  readonly names: readonly string[];
  /** Absolute path in the container of what `names` leads to. */
  readonly shown: string;
  /** Absolute container paths that are mount points: what lies under them here is no content. */
  readonly mountPoints: ReadonlySet<string>;
}

/**
 * Reads regular files that a container could have tampered with: by handle, links never followed, opened so that a
 * FIFO cannot block, one link only, sizes limited (docs/security.md, "Confinement"). The container must have ended.
 */
export class Collector {
  readonly #request: CollectRequest;
  readonly #leaveOut: (message: string) => void;
  readonly #files = new Map<string, CollectedFile>();
  #total = 0;

  constructor(request: CollectRequest, leaveOut: (message: string) => void) {
    this.#request = request;
    this.#leaveOut = leaveOut;
  }

  get files(): readonly CollectedFile[] {
    return [...this.#files.values()];
  }

  take(source: CollectSource): void {
    const link = linkOnTheWay(source.root, source.names);
    if (link !== undefined) {
      this.#leaveOut(`${source.shown} is reached through the symbolic link ${link} and was left out`);
      return;
    }
    const start = source.names.join('/');
    for (const { path, folder, name } of walk(source.root, source.names)) {
      const below = path.slice(start.length).replace(/^\//, '');
      const shown = below === '' ? source.shown : `${source.shown === '/' ? '' : source.shown}/${below}`;
      // A bound single file has its own source whose root is the mount point itself.
      if (source.mountPoints.has(shown) && below !== '') continue;
      this.#entry(folder, name, shown);
    }
  }

  #entry(folder: Folder, name: string, shown: string): void {
    const stat = folder.stat(name);
    if (stat === undefined || stat.isDirectory()) return;
    // Overlayfs notes a removed file as device 0:0.
    if (stat.isCharacterDevice() && stat.rdev === 0) return;
    if (!stat.isFile()) {
      const kind = stat.isSymbolicLink() ? 'a symbolic link' : stat.isFIFO() ? 'a fifo' : 'no regular file';
      this.#leaveOut(`${shown} is ${kind} and was left out`);
      return;
    }
    const fd = folder.openFile(name);
    try {
      this.#read(fd, shown);
    } finally {
      closeSync(fd);
    }
  }

  #read(fd: number, shown: string): void {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.nlink > 1) {
      this.#leaveOut(`${shown} is ${stat.isFile() ? 'a hard link' : 'no regular file'} and was left out`);
      return;
    }
    const { maxFileBytes, maxTotalBytes } = this.#request;
    this.#total += stat.size;
    if (stat.size > maxFileBytes || this.#total > maxTotalBytes) {
      const limit = stat.size > maxFileBytes ? maxFileBytes : maxTotalBytes;
      throw engineError('ENGINE_OUTPUT_TOO_LARGE', `${shown} has ${stat.size} bytes; the limit is ${limit}`, {
        hint: 'write less there, or raise the limit',
        details: { path: shown, sizeBytes: stat.size, limitBytes: limit },
      });
    }
    const content = Buffer.alloc(stat.size);
    let done = 0;
    while (done < content.length) {
      const read = readSync(fd, content, done, content.length - done, done);
      if (read === 0) break;
      done += read;
    }
    this.#files.set(shown, { path: shown, mode: stat.mode & 0o7777, content: content.subarray(0, done) });
  }
}

function linkOnTheWay(root: string, names: readonly string[]): string | undefined {
  for (let end = 1; end < names.length; end += 1) {
    using folder = descend(root, names.slice(0, end - 1));
    if (folder?.stat(names[end - 1] as string)?.isSymbolicLink() === true)
      return `/${names.slice(0, end).join('/')}`;
  }
  return undefined;
}

export function namesOf(path: string): readonly string[] {
  return parts(path);
}
