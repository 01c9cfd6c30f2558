import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from '../../oci/index.ts';
import { engineError } from '../errors.ts';
import type { Engine, OperationOptions, Session, SessionSpec } from '../port.ts';
import { giveTo } from '../tree/contents.ts';
import { killContainer, readJson, readRecord, removeContainer } from './container.ts';
import type { SessionHost } from './create.ts';
import { endHolders } from './ending.ts';
import { OCI_RUNTIME_GAPS } from './gaps.ts';
import { keptLease, runLease } from './keep.ts';
import { LayerForm } from './layer-form.ts';
import {
  containerIds,
  type Directories,
  installationVolumes,
  isSafeId,
  type RunLayout,
  runLayout,
} from './layout.ts';
import { type Programs, preparePrograms } from './programs.ts';
import { seccompProgram } from './seccomp-program.ts';
import { RuntimeSession } from './session.ts';

export interface OciRuntimeOptions {
  readonly store: Store;
  /** Path of crun. */
  readonly runtime: string;
  /** On a disk file system that takes overlays and idmapped mounts (ext4, xfs, btrfs); made 0700. */
  readonly stateDirectory: string;
  /** On a tmpfs; made 0700. */
  readonly runtimeDirectory: string;
  /** Left out: /var/run/docker.sock. */
  readonly dockerSocket?: string;
  /** Who owns workspaces and volumes on disk; left out: root. */
  readonly owner?: { readonly uid: number; readonly gid: number };
}

/**
 * The embedded engine: containers by an OCI runtime, with no daemon. For root; each session lives in a mount
 * namespace of its own, each container in a user namespace (README.md has the whole list).
 */
export function createOciRuntimeEngine(options: OciRuntimeOptions): Engine {
  const directories: Directories = { state: options.stateDirectory, runtime: options.runtimeDirectory };
  let program: Promise<string | undefined> | undefined;
  let programs: Programs | undefined;
  let layers: LayerForm | undefined;
  const host = (): SessionHost => {
    programs ??= prepareDirectories(directories);
    layers ??= LayerForm.of(options.store.directory);
    const { init, mount } = programs;
    return {
      directories,
      store: options.store,
      runtime: options.runtime,
      initProgram: init,
      mountProgram: mount,
      layers,
      dockerSocket: options.dockerSocket ?? '/var/run/docker.sock',
      owner: options.owner ?? { uid: 0, gid: 0 },
      seccompProgram(signal) {
        program ??= seccompProgram({
          runtime: options.runtime,
          directory: join(directories.state, 'seccomp'),
          initProgram: init,
          signal,
        });
        return program;
      },
    };
  };
  const layoutOf = (runId: string): RunLayout => {
    if (!isSafeId(runId)) throw engineError('ENGINE_RUN_INVALID', `${JSON.stringify(runId)} is no run id`);
    return runLayout(directories, runId);
  };
  return {
    name: 'crun',
    gaps: OCI_RUNTIME_GAPS,
    async open(spec: SessionSpec, operation: OperationOptions): Promise<Session> {
      operation.signal.throwIfAborted();
      const layout = layoutOf(spec.runId);
      if (!isSafeId(spec.installationId)) {
        throw engineError(
          'ENGINE_RUN_INVALID',
          `${JSON.stringify(spec.installationId)} is no installation id`,
        );
      }
      const ready = host();
      if (existsSync(layout.control) || existsSync(layout.disk)) {
        throw engineError('ENGINE_SESSION_FAILED', `run ${spec.runId} has a session already`, {
          hint: 'adopt or sweep it',
        });
      }
      makeRun(layout, spec, { directories, owner: ready.owner });
      const session = new RuntimeSession(ready, spec, layout, operation);
      try {
        await session.ready();
      } catch (cause) {
        // The workspace that was taken over is all that cannot be made again.
        giveBack(directories, layout, spec);
        await removeRun(layout);
        await session.endLease();
        throw cause;
      }
      return session;
    },
    async adopt(runId, operation) {
      const layout = layoutOf(runId);
      const spec = readJson<SessionSpec>(layout.session);
      if (spec === undefined) return undefined;
      const session = new RuntimeSession(host(), spec, layout, operation);
      await session.takeOver();
      return session;
    },
    async sweep(runId) {
      await removeRun(layoutOf(runId));
      for (const lease of [keptLease(runId), runLease(runId)]) await options.store.endLeases?.(lease);
    },
    async removeVolumes(installationId) {
      if (!isSafeId(installationId))
        throw engineError('ENGINE_RUN_INVALID', `${JSON.stringify(installationId)} is no installation id`);
      rmSync(installationVolumes(directories, installationId), { recursive: true, force: true });
    },
  };
}

function prepareDirectories(directories: Directories): Programs {
  mkdirSync(directories.state, { recursive: true, mode: 0o700 });
  // A container can leave a setuid file of the owner's in its workspace: nobody else may reach it.
  chmodSync(directories.state, 0o700);
  mkdirSync(directories.runtime, { recursive: true, mode: 0o700 });
  chmodSync(directories.runtime, 0o700);
  return preparePrograms(join(directories.state, 'init'));
}

function makeRun(
  layout: RunLayout,
  spec: SessionSpec,
  options: {
    readonly directories: Directories;
    readonly owner: { readonly uid: number; readonly gid: number };
  },
): void {
  const kept = spec.workspaceOf === undefined ? undefined : runLayout(options.directories, spec.workspaceOf);
  if (kept !== undefined && (!isSafeId(kept.runId) || !existsSync(kept.workspace))) {
    throw engineError(
      'ENGINE_SESSION_FAILED',
      `the workspace of run ${spec.workspaceOf} is not there any more`,
      {
        hint: 'start the action anew, without --resume',
      },
    );
  }
  mkdirSync(layout.disk, { recursive: true, mode: 0o700 });
  writeFileSync(layout.session, JSON.stringify(spec), { mode: 0o600 });
  if (kept === undefined) {
    mkdirSync(layout.workspace, { mode: 0o755 });
  } else {
    renameSync(kept.workspace, layout.workspace);
    if (existsSync(kept.placeholders)) renameSync(kept.placeholders, layout.placeholders);
  }
  giveTo(layout.workspace, options.owner);
}

function giveBack(directories: Directories, layout: RunLayout, spec: SessionSpec): void {
  if (spec.workspaceOf === undefined || !existsSync(layout.workspace)) return;
  const kept = runLayout(directories, spec.workspaceOf);
  mkdirSync(kept.disk, { recursive: true, mode: 0o700 });
  renameSync(layout.workspace, kept.workspace);
}

/** Stops what still runs and removes everything of a run. */
async function removeRun(layout: RunLayout): Promise<void> {
  for (const id of containerIds(layout)) {
    await killContainer(layout, id);
    const record = readRecord(layout, id);
    if (record !== undefined) await removeContainer(layout, record);
  }
  await endHolders(layout, { patient: false });
  rmSync(layout.control, { recursive: true, force: true, maxRetries: 3 });
  rmSync(layout.disk, { recursive: true, force: true });
}
