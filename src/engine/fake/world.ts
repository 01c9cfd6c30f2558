import type { ContainerExit, ContainerRun } from '../port.ts';
import type { FakeProgram } from './program.ts';
import { type DirectoryNode, directory, file, type TreeNode } from './tree.ts';

/** An image of the fake engine: what its command lines do, and the files and users that matter to a test. */
export interface FakeImage {
  /** Runs for every command line that `programs` does not know. Without it those end with 127. */
  readonly run?: FakeProgram;
  /** By exact command line, its arguments joined by a newline, or by argv[0] alone. */
  readonly programs?: Readonly<Record<string, FakeProgram>>;
  /** By absolute path; `imageArchive` reads them too. */
  readonly files?: Readonly<
    Record<string, string | Uint8Array | { readonly content: string | Uint8Array; readonly mode: number }>
  >;
  readonly users?: Readonly<Record<string, { readonly uid: number; readonly gid: number }>>;
  readonly groups?: Readonly<Record<string, number>>;
}

export interface FakeContainer {
  readonly run: ContainerRun;
  readonly output: { readonly stream: 'stdout' | 'stderr'; readonly chunk: Uint8Array }[];
  /** Told of each new chunk and of the end. */
  readonly listeners: Set<() => void>;
  readonly outputs: DirectoryNode;
  readonly root: DirectoryNode;
  readonly done: Promise<ContainerExit>;
  exit?: ContainerExit;
  terminate(why: 'cancelled' | 'timeout'): void;
  kill(cause: 'cancelled' | 'timeout'): void;
  read(path: string): TreeNode | undefined;
  list(path: string): readonly string[];
}

export interface FakeRun {
  readonly runId: string;
  readonly installationId: string;
  readonly images: ReadonlySet<string>;
  workspace: DirectoryNode;
  readonly shared: { readonly home: DirectoryNode; readonly tmp: DirectoryNode };
  readonly volumes: Map<string, DirectoryNode>;
  readonly containers: Map<string, FakeContainer>;
}

/**
 * What a host is to a real engine: it outlives the engine object. Two engines over one world are two processes on one
 * host, and an engine that is dropped in mid-run is a process that was killed.
 */
export class FakeWorld {
  readonly images = new Map<string, FakeImage>();
  readonly runs = new Map<string, FakeRun>();
  readonly keptWorkspaces = new Map<string, DirectoryNode>();
  readonly installationVolumes = new Map<string, Map<string, DirectoryNode>>();
  /** Every container that was ever started, in order: tests count them. */
  readonly started: ContainerRun[] = [];

  constructor(images: Readonly<Record<string, FakeImage>> = {}) {
    for (const [name, image] of Object.entries(images)) this.images.set(name, image);
  }

  image(name: string): FakeImage {
    return this.images.get(name) ?? {};
  }
}

export function imageTree(image: FakeImage): DirectoryNode {
  const root = directory();
  for (const folder of ['tmp', 'root']) root.entries.set(folder, directory());
  for (const [path, value] of Object.entries(image.files ?? {})) {
    const parts = path.split('/').filter((part) => part !== '');
    const name = parts.pop() as string;
    let folder = root;
    for (const part of parts) {
      const next = folder.entries.get(part);
      const made = next?.kind === 'directory' ? next : directory();
      folder.entries.set(part, made);
      folder = made;
    }
    const plain = typeof value === 'string' || value instanceof Uint8Array;
    folder.entries.set(name, file(plain ? value : value.content, plain ? 0o644 : value.mode));
  }
  return root;
}
