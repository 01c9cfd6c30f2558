import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import type { Store } from '../../oci/index.ts';
import type { ContainerRun } from '../port.ts';
import type { Owner } from '../tree/folder.ts';
import { resolveInside } from '../tree/scoped.ts';
import { containerConfig } from './config.ts';
import { type ContainerRecord, makeContainerFolder, writeRecord } from './container.ts';
import type { Holder } from './holder.ts';
import { hostOwner } from './id-map.ts';
import type { LayerForm } from './layer-form.ts';
import {
  containerFolder,
  type Directories,
  installationVolumes,
  outputsFolder,
  type RunLayout,
  upperFolder,
} from './layout.ts';
import { makeGroups, removeGroups } from './limits.ts';
import { type MountSources, makeOutputs, makeWorkingDir, planMounts, socketGroup } from './mount-plan.ts';
import { OutputFolders } from './output-folders.ts';
import type { Overlay } from './overlays.ts';
import { RootPoints } from './root-points.ts';
import type { SharedFolders } from './shared-folders.ts';
import { UntouchedFolders } from './untouched.ts';
import { type ContainerUser, resolveUser } from './users.ts';

/** What a session needs of its engine. */
export interface SessionHost {
  readonly directories: Directories;
  readonly store: Store;
  readonly runtime: string;
  readonly initProgram: string;
  readonly mountProgram: string;
  /** How sessions have their layers: decided once, and again where a mount is refused. */
  readonly layers: LayerForm;
  readonly dockerSocket: string;
  readonly owner: Owner;
  seccompProgram(signal: AbortSignal): Promise<string | undefined>;
}

/** Makes containers of one session up to the point where the runtime can be told to start them. */
export class ContainerMaker {
  readonly #host: SessionHost;
  readonly #layout: RunLayout;
  readonly #installationId: string;
  readonly #shared: SharedFolders;
  readonly #users = new Map<string, ContainerUser>();
  readonly #points = new RootPoints();
  readonly #lastOwner = new Map<string, Owner>();
  readonly #untouched = new UntouchedFolders();
  readonly output = new OutputFolders();

  constructor(
    host: SessionHost,
    layout: RunLayout,
    of: { readonly installationId: string; readonly shared: SharedFolders },
  ) {
    this.#host = host;
    this.#layout = layout;
    this.#installationId = of.installationId;
    this.#shared = of.shared;
  }

  /** Makes a container's files, mount points, groups and configuration. */
  create(
    run: ContainerRun,
    overlay: Overlay,
    parts: { readonly holder: Holder; readonly terminal: boolean; readonly program: string | undefined },
  ): ContainerRecord {
    const user = this.#user(overlay, run);
    this.#shared.readyFor(user, run);
    this.#lastOwner.set(run.image, hostOwner(user));
    const control = makeContainerFolder(this.#layout, this.output, run);
    const plan = this.#points.with(run.image, overlay, (point) => {
      const sources = this.#sources(run, overlay, { user, holder: parts.holder, point });
      const planned = planMounts(run, sources);
      makeWorkingDir(run, planned, sources);
      return planned;
    });
    this.#shared.note(plan);
    const groups = makeGroups(`${this.#layout.runId}-${run.containerId}`, run.resources);
    const real: Record<string, readonly string[]> = {};
    for (const path of run.collectPaths) {
      const resolved = resolveInside(overlay.reachable, path);
      real[path] = [...resolved.real, ...resolved.missing];
    }
    const record: ContainerRecord = {
      containerId: run.containerId,
      image: run.image,
      overlay: overlay.name,
      mounts: plan.mounts,
      real,
      groups,
      sensitive: run.sensitive,
    };
    const config = containerConfig(
      run.workingDir === posix.normalize(run.workingDir)
        ? run
        : { ...run, workingDir: posix.normalize(run.workingDir) },
      {
        rootfs: overlay.path,
        user,
        binds: plan.binds,
        networkNamespace: join(parts.holder.folder, 'netns'),
        initProgram: this.#host.initProgram,
        seccompProgram: parts.program,
        terminal: parts.terminal,
        ...(run.dockerSocket ? { extraHostGid: socketGroup(this.#host.dockerSocket) } : {}),
      },
    );
    try {
      if (groups.length > 0)
        writeFileSync(join(control, 'groups'), `${groups.join('\n')}\n`, { mode: 0o600 });
      writeFileSync(join(control, 'config.json'), JSON.stringify(config), { mode: 0o600 });
      writeRecord(this.#layout, record);
    } catch (cause) {
      removeGroups(groups);
      throw cause;
    }
    // Who is nearly root of this host could set even a time of change; of a shell's end nobody tells.
    if (!run.privileged && !run.dockerSocket && !parts.terminal) {
      if (!plan.ownsRoot) this.#untouched.seal(upperFolder(this.#layout, overlay.name));
      this.#untouched.seal(outputsFolder(this.#layout, overlay.name));
    }
    return record;
  }

  /** @returns whether the root of an ended container can serve again; its folder for outputs is then fit to, or gone */
  recover({ overlay }: ContainerRecord): boolean {
    const outputs = outputsFolder(this.#layout, overlay);
    const outputsServe = this.#untouched.open(outputs);
    if (!this.#untouched.open(upperFolder(this.#layout, overlay))) return false;
    if (!outputsServe) rmSync(outputs, { recursive: true, force: true });
    return true;
  }

  /** What can be done for the next container of an image while another one runs. */
  makeAhead(image: string, overlay: Overlay): void {
    this.#points.makeAhead(image, overlay);
    const owner = this.#lastOwner.get(image);
    if (owner !== undefined) makeOutputs(outputsFolder(this.#layout, overlay.name), owner);
  }

  #sources(
    run: ContainerRun,
    overlay: Overlay,
    parts: {
      readonly user: ContainerUser;
      readonly holder: Holder;
      readonly point: MountSources['point'];
    },
  ): MountSources {
    const { directories, owner } = this.#host;
    const folder = (path: string): string => {
      mkdirSync(path, { recursive: true, mode: 0o700 });
      return path;
    };
    return {
      point: parts.point,
      rootfs: overlay.reachable,
      user: parts.user,
      owner,
      workspace: this.#layout.workspace,
      home: run.home === 'shared' ? folder(this.#layout.home) : this.#layout.home,
      tmp: run.home === 'shared' ? folder(this.#layout.tmp) : this.#layout.tmp,
      outputs: outputsFolder(this.#layout, overlay.name),
      files: join(containerFolder(this.#layout, run.containerId), 'f'),
      filesSeen: join(parts.holder.folder, 'c', run.containerId, 'f'),
      volume: (scope, name) =>
        folder(
          join(
            scope === 'run'
              ? join(this.#layout.disk, 'volumes')
              : installationVolumes(directories, this.#installationId),
            name,
          ),
        ),
      seen: (path, readOnly) =>
        join(parts.holder.folder, readOnly ? 'r' : 'b', path.slice(directories.state.length)),
      dockerSocket: run.dockerSocket ? this.#host.dockerSocket : undefined,
    };
  }

  #user(overlay: Overlay, run: ContainerRun): ContainerUser {
    const key = `${run.image}\0${run.user}`;
    const known = this.#users.get(key);
    if (known !== undefined) return known;
    const user = resolveUser(overlay.reachable, run.user, run.image);
    this.#users.set(key, user);
    return user;
  }
}
