import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isSkycapError } from '../../kernel/index.ts';
import type { PinnedImage, Store } from '../../oci/index.ts';
import { loadRegistryServer } from '../../oci/registry/index.ts';
import { engineError } from '../errors.ts';
import type { Engine, OperationOptions, Session, SessionSpec } from '../port.ts';
import { DockerApi } from './api.ts';
import type { ContainerInspect } from './api-types.ts';
import { type DaemonFacts, type DaemonPaths, helperFile, learnDaemon } from './daemon.ts';
import { DOCKER_GAPS } from './gaps.ts';
import { Holder } from './holder.ts';
import { ensureImage, type ImageServer, type ImageSourceOptions, idOf } from './images.ts';
import { keptImage } from './kept.ts';
import { containersOf, LABEL, labelsOf, networksOf, runName, volumesOf } from './names.ts';
import { removeRunPlaces } from './places.ts';
import { DockerSession, type SessionContext } from './session.ts';

export interface DockerEngineOptions {
  readonly store: Store;
  readonly socketPath: string;
  /** On a tmpfs, 0700 (`settings.runtimeDirectory`). */
  readonly runtimeDirectory: string;
  /** On disk, for raw output of steps that see no secrets (below `settings.cacheDirectory`). */
  readonly workDirectory: string;
  /** Effective user id. */
  readonly uid: number;
  /** Never let the daemon pull from the built-in registry: images always go as archives. */
  readonly archivesOnly?: boolean;
}

/**
 * Steps as containers of a Docker daemon, by its API (docs/security.md says what Docker keeps). The daemon runs and
 * confines; a small process of ours for each container keeps its output and its timeout when the tool is killed.
 */
export function createDockerEngine(options: DockerEngineOptions): Engine & AsyncDisposable {
  const api = new DockerApi(options.socketPath);
  const paths: DaemonPaths = {
    runtimeDirectory: join(options.runtimeDirectory, 'docker'),
    workDirectory: join(options.workDirectory, 'docker'),
  };
  let known: Promise<DaemonFacts> | undefined;

  async function facts(): Promise<DaemonFacts> {
    known ??= (async () => {
      for (const folder of [paths.runtimeDirectory, paths.workDirectory])
        await mkdir(folder, { recursive: true, mode: 0o700 });
      return await learnDaemon(api, paths, options.uid);
    })();
    known.catch(() => {
      known = undefined;
    });
    return await known;
  }

  async function contextOf(
    of: Omit<SessionContext, 'api' | 'facts' | 'paths' | 'ensure' | 'helperFile'>,
  ): Promise<SessionContext> {
    const daemon = await facts();
    return {
      ...of,
      api,
      facts: daemon,
      paths,
      ensure: async (image) => {
        await using source = await imageSource(of.operation.signal);
        return await ensureImage(api, image, source);
      },
      helperFile: daemon.local ? await helperFile(paths, daemon.architecture) : undefined,
    };
  }

  async function bring(spec: SessionSpec, operation: OperationOptions): Promise<SessionContext['images']> {
    const images = new Map<string, { readonly image: PinnedImage; readonly id: string }>();
    await using source = await imageSource(operation.signal);
    for (const [name, image] of Object.entries(spec.images)) {
      operation.signal.throwIfAborted();
      operation.emit({ type: 'engine.image', image: name, phase: 'loading' });
      images.set(name, { image, id: await ensureImage(api, image, source) });
      operation.emit({ type: 'engine.image', image: name, phase: 'ready' });
    }
    return images;
  }

  /** The built-in registry is started by the first image that the daemon does not have. */
  async function imageSource(signal: AbortSignal): Promise<ImageSourceOptions & AsyncDisposable> {
    let served: Promise<ImageServer & AsyncDisposable> | undefined;
    const serve = async (): Promise<ImageServer> => {
      served ??= loadRegistryServer().then(({ serveRegistry }) => serveRegistry({ store: options.store }));
      return await served;
    };
    const { local } = await facts();
    return {
      store: options.store,
      signal,
      serve: local && options.archivesOnly !== true ? serve : undefined,
      [Symbol.asyncDispose]: async () => {
        await (await served)?.[Symbol.asyncDispose]();
      },
    };
  }

  async function takenOver(runId: string): Promise<ContainerInspect> {
    const found = await api.inspect(runName(runId, 'holder'));
    if (found?.Config.Labels?.[LABEL.workspace] !== undefined) return found;
    throw engineError('ENGINE_SESSION_FAILED', `the workspace of run ${runId} is not there any more`, {
      hint: 'start the action anew, without --resume',
    });
  }

  async function open(spec: SessionSpec, operation: OperationOptions): Promise<Session> {
    operation.signal.throwIfAborted();
    const daemon = await facts();
    if ((await api.inspect(runName(spec.runId, 'holder'))) !== undefined) {
      throw engineError('ENGINE_SESSION_FAILED', `run ${spec.runId} has a session already`, {
        hint: 'adopt it',
      });
    }
    const before = spec.workspaceOf === undefined ? undefined : await takenOver(spec.workspaceOf);
    const images = await bring(spec, operation);
    const workspaceVolume = before?.Config.Labels?.[LABEL.workspace] ?? runName(spec.runId, 'workspace');
    try {
      if (spec.network) await makeNetwork(spec.runId);
      const { runId, installationId } = spec;
      const holder = await Holder.create(api, {
        runId,
        installationId,
        images: spec.images,
        helperId: daemon.helperId,
        workspaceVolume,
      });
      // Only now: until the new holder stands, the old one is what says where the workspace is.
      if (before !== undefined) await forget(spec.workspaceOf as string, before, workspaceVolume);
      return new DockerSession(await contextOf({ runId, installationId, holder, images, operation }));
    } catch (error) {
      await sweep(spec.runId, { keep: before === undefined ? undefined : workspaceVolume }).catch(() => {});
      throw error;
    }
  }

  async function forget(runId: string, holder: ContainerInspect, workspaceVolume: string): Promise<void> {
    await api.remove(holder.Id);
    for (const volume of await volumesOf(api, [`${LABEL.run}=${runId}`])) {
      if (volume !== workspaceVolume) await api.removeVolume(volume);
    }
  }

  async function makeNetwork(runId: string): Promise<void> {
    try {
      await api.run({
        method: 'POST',
        path: '/networks/create',
        json: { Name: runName(runId, 'network'), Driver: 'bridge', Labels: labelsOf(runId, 'network') },
        doing: 'create a network',
      });
    } catch (error) {
      if (!isSkycapError(error, 'ENGINE_DOCKER_FAILED')) throw error;
      throw engineError('ENGINE_NETWORK_UNAVAILABLE', error.message, {
        hint: 'remove unused networks (docker network prune), or let the steps do without: `network: none`',
        cause: error,
      });
    }
  }

  async function adopt(runId: string, operation: OperationOptions): Promise<Session | undefined> {
    const found = await api.inspect(runName(runId, 'holder'));
    if (found === undefined) return undefined;
    const labels = found.Config.Labels ?? {};
    const holder = new Holder(
      api,
      runName(runId, 'holder'),
      labels[LABEL.workspace] ?? runName(runId, 'workspace'),
    );
    const images = new Map<string, { readonly image: PinnedImage; readonly id: string }>();
    const pinned = JSON.parse(labels[LABEL.images] ?? '{}') as Record<string, PinnedImage>;
    for (const [name, image] of Object.entries(pinned))
      images.set(name, { image, id: (await idOf(api, image)) ?? image.configDigest });
    const installationId = labels[LABEL.installation] ?? '';
    return new DockerSession(await contextOf({ runId, installationId, holder, images, operation }));
  }

  async function sweep(runId: string, more: { readonly keep?: string | undefined } = {}): Promise<void> {
    const volumes = new Set<string>();
    for (const container of await containersOf(api, runId)) {
      const workspace = container.Labels[LABEL.workspace];
      if (workspace !== undefined) volumes.add(workspace);
      const id = container.Labels[LABEL.container];
      await api.remove(container.Id);
      if (id === undefined) continue;
      await api.run({
        method: 'DELETE',
        path: `/images/${keptImage(id)}`,
        query: { force: '1' },
        accept: [404, 409],
        doing: 'remove a kept image',
      });
    }
    for (const network of await networksOf(api, runId)) {
      await api.run({
        method: 'DELETE',
        path: `/networks/${network}`,
        accept: [403, 404, 409],
        doing: 'remove a network',
      });
    }
    for (const volume of await volumesOf(api, [`${LABEL.run}=${runId}`])) volumes.add(volume);
    // A workspace that a later run has taken over is in use, and stays.
    for (const volume of volumes) if (volume !== more.keep) await api.removeVolume(volume);
    await removeRunPlaces(paths, runId);
  }

  return {
    name: 'docker',
    gaps: DOCKER_GAPS,
    open,
    adopt,
    sweep: (runId) => sweep(runId),
    async removeVolumes(installationId) {
      const found = await volumesOf(api, [`${LABEL.installation}=${installationId}`, `${LABEL.role}=volume`]);
      for (const volume of found) await api.removeVolume(volume);
    },
    [Symbol.asyncDispose]: () => api[Symbol.asyncDispose](),
  };
}
