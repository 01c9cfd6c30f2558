import { chmodSync, chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { engineError } from '../errors.ts';
import type { ContainerRun } from '../port.ts';
import { checkVolumePlace, isBelow } from '../run-check.ts';
import { Folder, type Owner, parts } from '../tree/folder.ts';
import { resolveInside, writeInside } from '../tree/scoped.ts';
import { type OciMount, ownedBind } from './config.ts';
import { containerRoot, hostOwner } from './id-map.ts';
import { hostsFile, resolverFile } from './name-service.ts';
import type { RootPoint } from './root-points.ts';
import type { ContainerUser } from './users.ts';

/** Something mounted in a container, and where it lies on this host. */
export interface PlannedMount {
  /** Absolute path in the container. */
  readonly path: string;
  readonly host: string;
  readonly kind: 'workspace' | 'shared' | 'volume' | 'outputs' | 'file' | 'socket';
}

export interface MountPlan {
  readonly binds: readonly OciMount[];
  readonly mounts: readonly PlannedMount[];
  /** Mount points that had to be made in the workspace, relative to it. */
  readonly placeholders: readonly string[];
  /** Whether something of the container's own, more than mount points, lies in its root. */
  readonly ownsRoot: boolean;
}

export interface MountSources {
  /** The container's root as this process reaches it; nothing runs in it yet. */
  readonly rootfs: string;
  readonly user: ContainerUser;
  /** Who owns workspace, homes and volumes on disk. */
  readonly owner: Owner;
  readonly workspace: string;
  readonly home: string;
  readonly tmp: string;
  readonly outputs: string;
  /** Folder on the tmpfs for the contents of files. */
  readonly files: string;
  /** The same, as the runtime sees it. */
  readonly filesSeen: string;
  volume(scope: 'run' | 'installation', name: string): string;
  /** The path of a state folder as the runtime sees it, with the flags that writable mounts have. */
  seen(path: string, readOnly: boolean): string;
  readonly dockerSocket: string | undefined;
  /** Makes a mount point in the root. */
  point(point: RootPoint): void;
}

/** Makes everything that is mounted into one container, the mount points included. */
export function planMounts(run: ContainerRun, sources: MountSources): MountPlan {
  const planner = new Planner(run, sources);
  // The runtime would make them after the root was sealed.
  for (const path of ['/proc', '/sys', '/dev']) planner.place(path);
  if (run.workspace !== 'none') {
    planner.owned('/cnab/app', sources.workspace, { kind: 'workspace', readOnly: run.workspace === 'ro' });
  }
  if (run.home === 'shared') {
    planner.owned('/home/nonroot', sources.home, { kind: 'shared', readOnly: false });
    planner.owned('/root', sources.home, { kind: 'shared', readOnly: false });
    planner.owned('/tmp', sources.tmp, { kind: 'shared', readOnly: false });
  }
  const volumes = [...run.volumes].sort((a, b) => a.path.length - b.path.length);
  for (const volume of volumes) {
    // The runtime follows the image's links to its mount points.
    const { real, missing } = resolveInside(sources.rootfs, volume.path);
    checkVolumePlace(volume, `/${[...real, ...missing].join('/')}`);
    planner.owned(volume.path, sources.volume(volume.scope, volume.name), {
      kind: 'volume',
      readOnly: false,
    });
  }
  planner.outputs();
  planner.system('/etc/hosts', hostsFile(run));
  if (run.network !== 'none') planner.system('/etc/resolv.conf', resolverFile(run.network));
  const files = [...run.files].sort((a, b) => a.path.length - b.path.length);
  for (const [index, file] of files.entries()) planner.file(file, index);
  if (sources.dockerSocket !== undefined) planner.socket(sources.dockerSocket);
  return planner.plan();
}

class Planner {
  readonly #run: ContainerRun;
  readonly #sources: MountSources;
  readonly #inside: Owner;
  readonly #binds: OciMount[] = [];
  readonly #mounts: PlannedMount[] = [];
  readonly #placeholders: string[] = [];
  #ownsRoot = false;

  constructor(run: ContainerRun, sources: MountSources) {
    this.#run = run;
    this.#sources = sources;
    this.#inside = hostOwner(sources.user);
  }

  plan(): MountPlan {
    return {
      binds: this.#binds,
      mounts: this.#mounts,
      placeholders: this.#placeholders,
      ownsRoot: this.#ownsRoot,
    };
  }

  place(path: string): void {
    this.#mountPoint(path, 'folder');
  }

  owned(
    path: string,
    host: string,
    options: { readonly kind: PlannedMount['kind']; readonly readOnly: boolean },
  ): void {
    this.#mountPoint(path, 'folder');
    const { owner, user } = this.#sources;
    const source = this.#sources.seen(host, options.readOnly);
    this.#binds.push(ownedBind(source, path, { owner, user, readOnly: options.readOnly }));
    this.#mounts.push({ path, host, kind: options.kind });
  }

  outputs(): void {
    const { outputs } = this.#sources;
    makeOutputs(outputs, this.#inside);
    this.#mountPoint(this.#run.outputsDir, 'folder');
    this.#bind(this.#run.outputsDir, this.#sources.seen(outputs, false), ['rw', 'nosuid', 'nodev']);
    this.#mounts.push({ path: this.#run.outputsDir, host: outputs, kind: 'outputs' });
  }

  file(file: ContainerRun['files'][number], index: number): void {
    const rootfsOwns = this.#covering(file.path) === undefined;
    if (rootfsOwns && !file.readOnly && !file.sensitive) {
      this.#ownsRoot = true;
      writeInside(this.#sources.rootfs, file.path, {
        content: file.content,
        mode: file.mode,
        owner: this.#inside,
        parentOwner: this.#inside,
      });
      return;
    }
    const host = join(this.#sources.files, String(index));
    writeFileSync(host, file.content, { mode: 0o600, flag: 'wx' });
    chownSync(host, this.#inside.uid, this.#inside.gid);
    chmodSync(host, file.mode & 0o777);
    this.#mountPoint(file.path, 'file');
    this.#bind(file.path, join(this.#sources.filesSeen, String(index)), [
      file.readOnly ? 'ro' : 'rw',
      'nosuid',
      'nodev',
    ]);
    this.#mounts.push({ path: file.path, host, kind: 'file' });
  }

  /** A file that each container has, over the image's: nothing of it is collected. */
  system(path: string, content: string): void {
    if (this.#run.files.some((file) => file.path === path)) return;
    const name = posix.basename(path);
    const host = join(this.#sources.files, name);
    writeFileSync(host, content, { mode: 0o644, flag: 'wx' });
    chownSync(host, containerRoot.uid, containerRoot.gid);
    chmodSync(host, 0o644);
    this.#mountPoint(path, 'file');
    this.#bind(path, join(this.#sources.filesSeen, name), ['rw', 'nosuid', 'nodev', 'noexec']);
  }

  socket(host: string): void {
    this.#mountPoint('/var/run/docker.sock', 'file');
    this.#bind('/var/run/docker.sock', host, ['rw', 'nosuid', 'nodev', 'noexec']);
    this.#mounts.push({ path: '/var/run/docker.sock', host, kind: 'socket' });
  }

  #bind(destination: string, source: string, options: readonly string[]): void {
    this.#binds.push({ destination, type: 'bind', source, options: ['bind', ...options] });
  }

  /** The mount that a path lies in, the innermost of those made so far. */
  #covering(path: string): PlannedMount | undefined {
    return this.#mounts
      .filter((mount) => isBelow(path, mount.path))
      .sort((a, b) => b.path.length - a.path.length)[0];
  }

  /** The runtime would make it too, but with modes and owners of its own, and not on a read-only mount. */
  #mountPoint(path: string, kind: 'folder' | 'file'): void {
    const covering = this.#covering(path);
    if (covering === undefined) {
      this.#sources.point({
        path,
        kind,
        owner: containerRoot,
        parentOwner: this.#parentOwner(path),
      });
      return;
    }
    const relative = parts(path.slice(covering.path.length));
    const owner = covering.kind === 'outputs' ? this.#inside : this.#sources.owner;
    for (const made of makeBelow(covering.host, relative, kind, { owner, shown: path })) {
      if (covering.kind === 'workspace') this.#placeholders.push(made);
    }
  }

  /** Folders above a user's file (`~/.kube/config`) are the user's: programs keep caches beside it. */
  #parentOwner(path: string): Owner {
    return path.startsWith('/cnab') || path.startsWith('/etc') || path.startsWith('/var')
      ? containerRoot
      : this.#inside;
  }
}

/** Makes a mount point in a folder that containers write to, links never followed; returns what it made. */
function makeBelow(
  root: string,
  names: readonly string[],
  kind: 'folder' | 'file',
  options: { readonly owner: Owner; readonly shown: string },
): readonly string[] {
  const made: string[] = [];
  let folder = Folder.open(root);
  try {
    for (const [index, name] of names.entries()) {
      const last = index === names.length - 1;
      const there = folder.stat(name);
      const wantsFile = last && kind === 'file';
      if (there !== undefined && (wantsFile ? !there.isFile() : !there.isDirectory())) {
        const what = there.isSymbolicLink() ? 'a symbolic link' : 'something else';
        throw engineError(
          'ENGINE_SESSION_FAILED',
          `there is ${what} where ${options.shown} must be mounted`,
          {
            hint: `remove or rename ${names.slice(0, index + 1).join('/')}`,
          },
        );
      }
      if (there === undefined) made.push(names.slice(0, index + 1).join('/'));
      if (wantsFile) {
        if (there === undefined) folder.writeNew(name, Buffer.alloc(0), { ...options.owner, mode: 0o600 });
        continue;
      }
      using above = folder;
      folder = there === undefined ? above.makeChild(name, 0o755, options.owner) : above.child(name);
    }
  } finally {
    folder[Symbol.dispose]();
  }
  return made;
}

/** Makes a container's folder for outputs, or takes the one that the container before left untouched. */
export function makeOutputs(path: string, owner: Owner): void {
  mkdirSync(path, { recursive: true, mode: 0o755 });
  const { uid, gid } = statSync(path);
  if (uid !== owner.uid || gid !== owner.gid) chownSync(path, owner.uid, owner.gid);
}

/** The working directory, as Docker makes it where the image has none: root's, 0755. */
export function makeWorkingDir(run: ContainerRun, plan: MountPlan, sources: MountSources): void {
  const covering = plan.mounts
    .filter((mount) => isBelow(run.workingDir, mount.path))
    .sort((a, b) => b.path.length - a.path.length)[0];
  if (covering === undefined) {
    const owner = containerRoot;
    sources.point({ path: run.workingDir, kind: 'folder', owner, parentOwner: owner });
    return;
  }
  if (run.workspace === 'ro' && covering.kind === 'workspace') return;
  makeBelow(covering.host, parts(run.workingDir.slice(covering.path.length)), 'folder', {
    owner: covering.kind === 'outputs' ? hostOwner(sources.user) : sources.owner,
    shown: run.workingDir,
  });
}

/** The group that may talk to the Docker daemon. */
export function socketGroup(socket: string): number {
  return statSync(socket).gid;
}
