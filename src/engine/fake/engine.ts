import { cancelledBefore, isCancelled } from '../cancelled.ts';
import { engineError } from '../errors.ts';
import type {
  CollectedFile,
  CollectRequest,
  ContainerExit,
  ContainerIo,
  ContainerRun,
  Engine,
  OperationOptions,
  Session,
  SessionSpec,
} from '../port.ts';
import { checkRun } from '../run-check.ts';
import { startContainer } from './container.ts';
import { type DirectoryNode, directory, split, type TreeNode } from './tree.ts';
import { fakeWorkspace, nodeAt, packTree } from './workspace.ts';
import { type FakeContainer, type FakeImage, type FakeRun, FakeWorld, imageTree } from './world.ts';

export interface FakeEngineOptions {
  /** By the name that the session knows an image by. */
  readonly images?: Readonly<Record<string, FakeImage>>;
  /** The host to work on; a new, empty one if not given. */
  readonly world?: FakeWorld;
}

export interface FakeEngine extends Engine {
  readonly world: FakeWorld;
}

/**
 * An engine in memory: an image is a JavaScript function, a workspace a tree of objects. It keeps the port's promises
 * about results, streams, files and lifetimes; it confines nothing and enforces no permissions (see `gaps`).
 */
export function createFakeEngine(options: FakeEngineOptions = {}): FakeEngine {
  const world = options.world ?? new FakeWorld();
  for (const [name, image] of Object.entries(options.images ?? {})) world.images.set(name, image);
  return {
    name: 'fake',
    world,
    gaps: [
      'nothing is confined: programs are functions of this process',
      'no permissions, limits or networks',
    ],
    async open(spec: SessionSpec, operation: OperationOptions): Promise<Session> {
      operation.signal.throwIfAborted();
      if (world.runs.has(spec.runId)) {
        throw engineError('ENGINE_SESSION_FAILED', `run ${spec.runId} has a session already`, {
          hint: 'adopt it',
        });
      }
      const kept = spec.workspaceOf === undefined ? undefined : world.keptWorkspaces.get(spec.workspaceOf);
      if (spec.workspaceOf !== undefined) {
        if (kept === undefined) {
          throw engineError(
            'ENGINE_SESSION_FAILED',
            `the workspace of run ${spec.workspaceOf} is not there any more`,
            {
              hint: 'start the action anew, without --resume',
            },
          );
        }
        world.keptWorkspaces.delete(spec.workspaceOf);
      }
      const run: FakeRun = {
        runId: spec.runId,
        installationId: spec.installationId,
        images: new Set(Object.keys(spec.images)),
        workspace: kept ?? directory(),
        shared: { home: directory(), tmp: directory() },
        volumes: new Map(),
        containers: new Map(),
      };
      world.runs.set(spec.runId, run);
      for (const image of run.images) operation.emit({ type: 'engine.image', image, phase: 'ready' });
      return new FakeSession(world, run, operation);
    },
    async adopt(runId, operation) {
      const run = world.runs.get(runId);
      return run === undefined ? undefined : new FakeSession(world, run, operation);
    },
    async sweep(runId) {
      const run = world.runs.get(runId);
      for (const container of run?.containers.values() ?? []) {
        container.kill('cancelled');
        await container.done;
      }
      world.runs.delete(runId);
      world.keptWorkspaces.delete(runId);
    },
    async removeVolumes(installationId) {
      world.installationVolumes.delete(installationId);
    },
  };
}

class FakeSession implements Session {
  readonly runId: string;
  readonly workspace: Session['workspace'];
  readonly #world: FakeWorld;
  readonly #run: FakeRun;
  readonly #operation: OperationOptions;
  /** Their end was told, and they never started. */
  readonly #neverStarted = new Set<string>();

  constructor(world: FakeWorld, run: FakeRun, operation: OperationOptions) {
    this.runId = run.runId;
    this.#world = world;
    this.#run = run;
    this.#operation = operation;
    this.workspace = fakeWorkspace(() => run.workspace);
  }

  async imageArchive(image: string, path: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const node = nodeAt(imageTree(this.#world.image(image)), split(path));
    return node?.kind === 'directory' && node.entries.size > 0 ? packTree(node) : undefined;
  }

  async run(spec: ContainerRun, io: ContainerIo): Promise<ContainerExit> {
    checkRun(spec);
    if (!this.#run.images.has(spec.image)) {
      throw engineError('ENGINE_RUN_INVALID', `the session has no image ${spec.image}`);
    }
    if (this.#run.containers.has(spec.containerId)) {
      throw engineError('ENGINE_RUN_INVALID', `container ${spec.containerId} exists already`);
    }
    const image = this.#world.image(spec.image);
    const user = userOf(image, spec);
    if (isCancelled(io)) {
      this.#neverStarted.add(spec.containerId);
      return cancelledBefore();
    }
    const container = startContainer(this.#run, spec, { image, user, volumes: this.#volumes(spec) });
    this.#run.containers.set(spec.containerId, container);
    this.#world.started.push(spec);
    io.onStarted?.();
    return follow(container, io);
  }

  async attach(containerId: string, io: ContainerIo): Promise<ContainerExit | undefined> {
    const container = this.#run.containers.get(containerId);
    if (container === undefined) return undefined;
    io.onStarted?.();
    return follow(container, io);
  }

  async collect(containerId: string, request: CollectRequest): Promise<readonly CollectedFile[]> {
    const container = this.#run.containers.get(containerId);
    if (container === undefined) {
      if (this.#neverStarted.has(containerId)) return [];
      throw engineError(
        'ENGINE_CONTAINER_UNKNOWN',
        `there is no container ${containerId} in run ${this.runId}`,
      );
    }
    const files: CollectedFile[] = [];
    let total = 0;
    const leave = (path: string, why: string): void =>
      this.#operation.emit({ type: 'engine.notice', message: `${path} ${why} and was left out` });
    const visit = (path: string, node: TreeNode | undefined): void => {
      if (node === undefined) return;
      if (node.kind === 'directory') {
        for (const name of container.list(path)) visit(`${path}/${name}`, container.read(`${path}/${name}`));
        return;
      }
      if (node.kind !== 'file') {
        leave(path, `is a ${node.kind === 'symlink' ? 'symbolic link' : node.kind}`);
        return;
      }
      if (node.links > 1) {
        leave(path, 'is a hard link');
        return;
      }
      const size = node.sizeBytes ?? node.content.length;
      total += size;
      if (size > request.maxFileBytes || total > request.maxTotalBytes) throw tooLarge(path, size, request);
      files.push({ path, mode: node.mode & 0o7777, content: Buffer.from(node.content) });
    };
    for (const path of request.paths) {
      const link = linkOnTheWay(container, path);
      if (link === undefined) visit(path, container.read(path));
      else leave(path, `is reached through the symbolic link ${link}`);
    }
    return files;
  }

  async release(containerId: string, options: { readonly keep: boolean }): ReturnType<Session['release']> {
    const container = this.#run.containers.get(containerId);
    if (container === undefined) return undefined;
    if (options.keep) return { containerId, shell: ['skycap-fake-shell', containerId] };
    container.kill('cancelled');
    await container.done;
    this.#run.containers.delete(containerId);
    return undefined;
  }

  async shellCommand(run: ContainerRun): Promise<readonly string[]> {
    return ['skycap-fake-shell', run.containerId];
  }

  async close(options: { readonly keepWorkspace: boolean }): Promise<void> {
    for (const container of this.#run.containers.values()) {
      container.kill('cancelled');
      await container.done;
    }
    this.#world.runs.delete(this.runId);
    if (options.keepWorkspace) this.#world.keptWorkspaces.set(this.runId, this.#run.workspace);
  }

  #volumes(spec: ContainerRun): ReadonlyMap<string, DirectoryNode> {
    const volumes = new Map<string, DirectoryNode>();
    for (const volume of spec.volumes) {
      const scope = volume.scope === 'run' ? this.#run.volumes : this.#installationVolumes();
      const tree = scope.get(volume.name) ?? directory();
      scope.set(volume.name, tree);
      volumes.set(`${volume.scope}/${volume.name}`, tree);
    }
    return volumes;
  }

  #installationVolumes(): Map<string, DirectoryNode> {
    const all = this.#world.installationVolumes;
    const found = all.get(this.#run.installationId) ?? new Map<string, DirectoryNode>();
    all.set(this.#run.installationId, found);
    return found;
  }
}

function follow(container: FakeContainer, io: ContainerIo): Promise<ContainerExit> {
  let told = 0;
  const tell = (): void => {
    for (; told < container.output.length; told += 1) {
      const piece = container.output[told] as FakeContainer['output'][number];
      io.onOutput(piece.stream, piece.chunk);
    }
  };
  const { promise, resolve } = Promise.withResolvers<ContainerExit>();
  let grace: NodeJS.Timeout | undefined;
  const onSignal = (): void => {
    grace ??= setTimeout(() => container.kill('cancelled'), container.run.graceMs);
    container.terminate('cancelled');
  };
  const onKill = (): void => container.kill('cancelled');
  const settle = (): void => {
    tell();
    if (container.exit === undefined) return;
    clearTimeout(grace);
    container.listeners.delete(settle);
    io.signal.removeEventListener('abort', onSignal);
    io.kill.removeEventListener('abort', onKill);
    resolve(container.exit);
  };
  container.listeners.add(settle);
  settle();
  if (container.exit === undefined) {
    io.signal.addEventListener('abort', onSignal);
    io.kill.addEventListener('abort', onKill);
    if (io.signal.aborted) onSignal();
    if (io.kill.aborted) onKill();
  }
  return promise;
}

function userOf(image: FakeImage, spec: ContainerRun): { uid: number; gid: number } {
  const [name = '', group] = spec.user.split(':');
  const known = image.users?.[name];
  const uid = name === '' ? 0 : /^\d+$/.test(name) ? Number(name) : known?.uid;
  const gid =
    group === undefined ? (known?.gid ?? 0) : /^\d+$/.test(group) ? Number(group) : image.groups?.[group];
  if (uid !== undefined && gid !== undefined) return { uid, gid };
  const what = uid === undefined ? `user ${JSON.stringify(name)}` : `group ${JSON.stringify(group)}`;
  throw engineError(
    'ENGINE_USER_UNKNOWN',
    `image ${spec.image} has no ${what} in its ${uid === undefined ? '/etc/passwd' : '/etc/group'}`,
    {
      hint: 'name a numeric user, or one that the image has',
    },
  );
}

function linkOnTheWay(container: FakeContainer, path: string): string | undefined {
  const parts = split(path);
  for (let end = 1; end < parts.length; end += 1) {
    const prefix = `/${parts.slice(0, end).join('/')}`;
    if (container.read(prefix)?.kind === 'symlink') return prefix;
  }
  return undefined;
}

function tooLarge(path: string, size: number, request: CollectRequest): Error {
  const limit = size > request.maxFileBytes ? request.maxFileBytes : request.maxTotalBytes;
  return engineError('ENGINE_OUTPUT_TOO_LARGE', `${path} has ${size} bytes; the limit is ${limit}`, {
    hint: 'write less there, or raise the limit',
    details: { path, sizeBytes: size, limitBytes: limit },
  });
}
