import { FakeFileError, file, type TreeNode, type View } from './tree.ts';

/** What runs in a fake container: a function of a process, its result the exit code (nothing is 0). */
export type FakeProgram = (process: FakeProcess) => number | void | Promise<number | void>;

/** The files of a fake container; paths are absolute or relative to its working directory. */
export interface FakeFiles {
  read(path: string): Buffer;
  text(path: string): string;
  exists(path: string): boolean;
  list(path: string): string[];
  mode(path: string): number;
  write(path: string, content: Uint8Array | string, mode?: number): void;
  mkdir(path: string, mode?: number): void;
  remove(path: string): void;
  chmod(path: string, mode: number): void;
  symlink(target: string, path: string): void;
  hardlink(target: string, path: string): void;
  fifo(path: string): void;
  device(path: string): void;
  sparse(path: string, sizeBytes: number): void;
}

export interface FakeProcess {
  readonly containerId: string;
  /** The name that the session knows the image by. */
  readonly image: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly uid: number;
  readonly gid: number;
  readonly cwd: string;
  readonly network: 'none' | 'default' | 'host';
  readonly files: FakeFiles;
  stdout(data: string | Uint8Array): void;
  stderr(data: string | Uint8Array): void;
  /** Replaces the default action of TERM, which is to end with 143. */
  onTerm(handler: () => void): void;
  /** Ends early with an error when the container is killed, so that nothing outlives it. */
  sleep(ms: number): Promise<void>;
  /** Aborted when the container has ended in whatever way. */
  readonly ended: AbortSignal;
}

export class FakeExit extends Error {
  readonly exitCode: number;
  constructor(exitCode: number) {
    super(`exit ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/** Ends the fake process at once, from however deep. */
export function exit(code: number): never {
  throw new FakeExit(code);
}

export function fakeFiles(view: View, cwd: string): FakeFiles {
  const at = (path: string): string => (path.startsWith('/') ? path : `${cwd === '/' ? '' : cwd}/${path}`);
  const need = (path: string, follow = true): TreeNode => {
    const found = view.lookup(at(path), follow);
    if (found === undefined) throw new FakeFileError('ENOENT', path);
    return found.node;
  };
  return {
    read: (path) => view.read(at(path)),
    text: (path) => view.read(at(path)).toString('utf8'),
    exists: (path) => view.lookup(at(path)) !== undefined,
    list: (path) => view.list(at(path)),
    mode: (path) => need(path).mode,
    write: (path, content, mode) => view.write(at(path), content, mode),
    mkdir: (path, mode) => view.mkdir(at(path), mode),
    remove: (path) => view.remove(at(path)),
    chmod(path, mode) {
      const found = view.lookup(at(path));
      if (found === undefined) throw new FakeFileError('ENOENT', path);
      if (found.readOnly) throw new FakeFileError('EROFS', path);
      if (found.node.kind === 'file' || found.node.kind === 'directory') found.node.mode = mode;
    },
    symlink: (target, path) => view.put(at(path), { kind: 'symlink', target, mode: 0o777 }),
    hardlink(target, path) {
      const node = need(target, false);
      if (node.kind !== 'file') throw new FakeFileError('EPERM', target);
      view.put(at(path), node);
      node.links += 1;
    },
    fifo: (path) => view.put(at(path), { kind: 'fifo', mode: 0o644 }),
    device: (path) => view.put(at(path), { kind: 'device', mode: 0o644 }),
    sparse: (path, sizeBytes) => view.put(at(path), { ...file(''), sizeBytes }),
  };
}
