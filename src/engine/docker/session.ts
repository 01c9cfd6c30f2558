import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { failpoint } from '../../kernel/index.ts';
import type { PinnedImage } from '../../oci/index.ts';
import { cancelledBefore, isCancelled } from '../cancelled.ts';
import { engineError } from '../errors.ts';
import type {
  CollectedFile,
  CollectRequest,
  ContainerExit,
  ContainerIo,
  ContainerRun,
  KeptContainer,
  OperationOptions,
  Session,
  Workspace,
} from '../port.ts';
import { checkRun, checkVolumePlace } from '../run-check.ts';
import type { DockerApi } from './api.ts';
import type { ContainerInspect } from './api-types.ts';
import { collectFiles } from './collect.ts';
import { type BodyContext, containerBody } from './container-body.ts';
import type { DaemonFacts, DaemonPaths } from './daemon.ts';
import { helperBinary } from './helper/index.ts';
import type { Holder } from './holder.ts';
import { createLook, filesBelow, readAccounts, realPath } from './image-files.ts';
import { keptShell } from './kept.ts';
import { containerName, containersOf, LABEL, networksOf, volumesOf } from './names.ts';
import { Placeholders } from './placeholders.ts';
import { placeFiles } from './placement.ts';
import { type ContainerPlaces, makePlaces, placesOf, removePlaces, removeRunPlaces } from './places.ts';
import { createContainer, firstFiles, giveToUser, makePlaceholders, openToUser } from './prepare.ts';
import { notStarted } from './start-failure.ts';
import { SupervisorProcess } from './supervised.ts';
import type { SupervisorAnswer } from './supervisor.ts';
import { type Owner, packItems } from './tar.ts';
import { type Accounts, resolveUser } from './users.ts';
import { watchExit } from './watch-exit.ts';
import { dockerWorkspace } from './workspace.ts';

export interface SessionContext {
  readonly api: DockerApi;
  readonly facts: DaemonFacts;
  readonly paths: DaemonPaths;
  readonly runId: string;
  readonly installationId: string;
  readonly holder: Holder;
  readonly images: ReadonlyMap<string, { readonly image: PinnedImage; readonly id: string }>;
  /** Brings an image again that someone removed from the daemon meanwhile. */
  ensure(image: PinnedImage): Promise<string>;
  /** The helper on this host, where the daemon can mount it. */
  readonly helperFile: string | undefined;
  readonly operation: OperationOptions;
}

export class DockerSession implements Session {
  readonly runId: string;
  readonly workspace: Workspace;
  readonly #c: SessionContext;
  readonly #accounts = new Map<string, Promise<Accounts>>();
  readonly #looks = new Map<string, Promise<string>>();
  readonly #kept = new Set<string>();
  /** Their end was told, and they never started. */
  readonly #neverStarted = new Set<string>();
  readonly #placeholders: Placeholders;

  constructor(context: SessionContext) {
    this.#c = context;
    this.runId = context.runId;
    this.#placeholders = new Placeholders(context.api, context.runId);
    this.workspace = dockerWorkspace(context.holder);
  }

  async imageArchive(image: string, path: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    return await filesBelow(this.#c.api, await this.#look(image), path);
  }

  async run(run: ContainerRun, io: ContainerIo): Promise<ContainerExit> {
    const ready = await this.#prepare(run, { shell: false });
    failpoint('create');
    const supervisor = ready.supervisor as SupervisorProcess;
    if (isCancelled(io)) {
      supervisor.letGo();
      await this.#discard(run.containerId, ready.places);
      this.#neverStarted.add(run.containerId);
      return cancelledBefore();
    }
    let answer: SupervisorAnswer;
    try {
      answer = await supervisor.start();
    } catch (error) {
      await this.#discard(run.containerId, ready.places);
      throw error;
    }
    if (!answer.started) {
      await this.#discard(run.containerId, ready.places);
      const exit = notStarted(run, answer);
      this.#neverStarted.add(run.containerId);
      return exit;
    }
    failpoint('start');
    io.onStarted?.();
    const exit = await watchExit(
      this.#c.api,
      { name: ready.name, places: ready.places, mark: ready.mark, graceMs: run.graceMs },
      io,
    );
    const { overflowFile } = ready.places;
    if (overflowFile !== undefined && existsSync(overflowFile)) {
      const message = `the output of ${run.containerId} is too large for memory; the rest of it lies in ${overflowFile} until it is released`;
      this.#c.operation.emit({ type: 'engine.notice', message });
    }
    await this.#afterwards(run.containerId, await this.#c.api.inspect(ready.name));
    return exit;
  }

  async attach(containerId: string, io: ContainerIo): Promise<ContainerExit | undefined> {
    const name = containerName(containerId);
    const places = this.#placesWithOutput(containerId);
    let found = await this.#c.api.inspect(name);
    for (let left = 50; found?.State.Status === 'created' && left > 0; left -= 1) {
      // Its tool may have died between the word to start and the start; a supervisor that never got it ends at once.
      await new Promise((resolve) => setTimeout(resolve, 100));
      found = await this.#c.api.inspect(name);
    }
    if (found?.State.Status === 'created') return undefined;
    if (found === undefined && !existsSync(join(places.directory, 'exit.json'))) {
      return existsSync(join(places.directory, 'output')) ? { ...NOTHING_KNOWN } : undefined;
    }
    io.onStarted?.();
    const mark = found?.Config.Labels?.[LABEL.mark] ?? '';
    const exit = await watchExit(this.#c.api, { name, places, mark, graceMs: 10_000 }, io);
    await this.#afterwards(containerId, found);
    return exit;
  }

  async collect(containerId: string, request: CollectRequest): Promise<readonly CollectedFile[]> {
    const found = await this.#find(containerId);
    if (found === undefined) {
      if (this.#neverStarted.has(containerId)) return [];
      throw unknown(containerId, this.runId);
    }
    const { emit } = this.#c.operation;
    return await collectFiles(this.#c.api, found.Id, { request, emit });
  }

  async release(
    containerId: string,
    options: { readonly keep: boolean },
  ): Promise<KeptContainer | undefined> {
    const found = await this.#find(containerId);
    if (found === undefined) return undefined;
    if (options.keep) {
      this.#kept.add(containerId);
      // Its secret files go; what an environment holds stays in the daemon's records until the container goes.
      await removePlaces(placesOf(this.#c.paths, { runId: this.runId, containerId, sensitive: true }));
      return { containerId, shell: keptShell(this.#c.api.socketPath, { containerId, found }) };
    }
    await this.#c.api.remove(found.Id);
    await this.#c.api.removeVolume(`${containerName(containerId)}-outputs`);
    await removePlaces(placesOf(this.#c.paths, { runId: this.runId, containerId, sensitive: true }));
    await this.#afterwards(containerId, found);
    return undefined;
  }

  async shellCommand(run: ContainerRun): Promise<readonly string[]> {
    const containerId = `${run.containerId.slice(0, 100)}-shell-${randomBytes(4).toString('hex')}`;
    const ready = await this.#prepare({ ...run, containerId }, { shell: true });
    return [
      'docker',
      '--host',
      `unix://${this.#c.api.socketPath}`,
      'start',
      '--attach',
      '--interactive',
      ready.name,
    ];
  }

  async close(options: { readonly keepWorkspace: boolean }): Promise<void> {
    const { api, holder, paths } = this.#c;
    for (const container of await containersOf(api, this.runId)) {
      const id = container.Labels[LABEL.container];
      const stays = container.Labels[LABEL.role] === 'holder' || (id !== undefined && this.#kept.has(id));
      if (!stays) await api.remove(container.Id);
    }
    for (const network of await networksOf(api, this.runId)) {
      await api.run({
        method: 'DELETE',
        path: `/networks/${network}`,
        accept: [403, 404, 409],
        doing: 'remove a network',
      });
    }
    if (options.keepWorkspace) await api.kill(holder.name, 'KILL');
    else await api.remove(holder.name);
    for (const volume of await volumesOf(api, [`${LABEL.run}=${this.runId}`])) {
      // What a kept container or the holder still uses answers 409 and stays.
      if (volume !== holder.workspaceVolume || !options.keepWorkspace) await api.removeVolume(volume);
    }
    if (!options.keepWorkspace) await api.removeVolume(holder.workspaceVolume);
    await removeRunPlaces(paths, this.runId);
  }

  async #prepare(run: ContainerRun, options: { readonly shell: boolean }): Promise<Prepared> {
    checkRun(run);
    const { api, facts, paths, holder } = this.#c;
    const { image, id } = this.#image(run.image);
    for (const volume of run.volumes) {
      // The daemon follows the image's links to its mount points.
      const look = await this.#look(run.image);
      checkVolumePlace(volume, await realPath(this.#c.api, look, volume.path));
    }
    const placement = placeFiles(run, facts);
    const name = containerName(run.containerId);
    if ((await api.inspect(name)) !== undefined) {
      throw engineError('ENGINE_RUN_INVALID', `container ${run.containerId} exists already`);
    }
    const places = placesOf(paths, {
      runId: this.runId,
      containerId: run.containerId,
      sensitive: run.sensitive,
    });
    const mark = `skycap-${randomBytes(12).toString('hex')}`;
    const init = this.#init(image);
    await makePlaces(places);
    // Started now, so that it is up when the container is ready.
    const supervisor = options.shell
      ? undefined
      : this.#supervisor(run, {
          name,
          places,
          prefix: await api.prefix(),
          holds: init.kind !== 'docker-init',
        });
    try {
      const mounted = placement.mounted.map((file, index) => ({
        file,
        source: join(places.files, String(index)),
      }));
      for (const { file, source } of mounted)
        await writeFile(source, file.content, { mode: 0o600, flag: 'wx' });
      this.#placeholders.begin(
        run.containerId,
        run.files.map((file) => file.path),
      );
      const placeholders = await makePlaceholders(this.#c, run, placement);
      const body = containerBody(run, {
        runId: this.runId,
        installationId: this.#c.installationId,
        image,
        imageId: id,
        facts,
        socketPath: api.socketPath,
        workspaceVolume: holder.workspaceVolume,
        mark,
        init,
        mountedFiles: mounted.map(({ file, source }) => ({
          source,
          path: file.path,
          readOnly: file.readOnly,
        })),
        placeholders,
        shell: options.shell,
      });
      await createContainer(this.#c, name, { body, image });
      const owner = await this.#user(run);
      for (const { file, source } of mounted)
        await openToUser(source, file, { owner, canChown: facts.canChown });
      await giveToUser(this.#c, run, owner);
      const { architecture } = image.platform;
      const look = () => this.#look(run.image);
      const first = await firstFiles(this.#c, run, { look, placement, owner, init, architecture });
      await api.putArchive(name, '/', packItems(first));
      return { name, places, mark, supervisor };
    } catch (error) {
      supervisor?.letGo();
      await this.#discard(run.containerId, places).catch(() => {});
      throw error;
    }
  }

  #supervisor(
    run: ContainerRun,
    of: {
      readonly name: string;
      readonly places: ContainerPlaces;
      readonly prefix: string;
      readonly holds: boolean;
    },
  ): SupervisorProcess {
    const { overflowFile, overflowAfterBytes, directory } = of.places;
    return new SupervisorProcess({
      socketPath: this.#c.api.socketPath,
      prefix: of.prefix,
      container: of.name,
      directory,
      graceMs: run.graceMs,
      ...(run.timeoutMs === undefined ? {} : { timeoutMs: run.timeoutMs }),
      ...(overflowFile === undefined
        ? {}
        : { overflow: { file: overflowFile, afterBytes: overflowAfterBytes ?? 0 } }),
      holdsStreams: of.holds,
    });
  }

  async #user(run: ContainerRun): Promise<Owner> {
    if (/^\d+:\d+$/.test(run.user) || run.user === '') return resolveUser(run.user, NO_ACCOUNTS, run.image);
    let accounts = this.#accounts.get(run.image);
    if (accounts === undefined) {
      accounts = this.#look(run.image).then((name) => readAccounts(this.#c.api, name));
      this.#accounts.set(run.image, accounts);
      accounts.catch(() => this.#accounts.delete(run.image));
    }
    return resolveUser(run.user, await accounts, run.image);
  }

  async #look(image: string): Promise<string> {
    const { id } = this.#image(image);
    let look = this.#looks.get(image);
    if (look === undefined) {
      look = createLook(this.#c.api, { imageId: id, runId: this.runId });
      this.#looks.set(image, look);
      look.catch(() => this.#looks.delete(image));
    }
    return await look;
  }

  #init(image: PinnedImage): BodyContext['init'] {
    if (helperBinary(image.platform.architecture) === undefined) return { kind: 'docker-init' };
    const { helperFile, facts } = this.#c;
    const mountable = helperFile !== undefined && image.platform.architecture === facts.architecture;
    return mountable ? { kind: 'mounted', source: helperFile } : { kind: 'written' };
  }

  async #afterwards(containerId: string, was: ContainerInspect | undefined): Promise<void> {
    const made = JSON.parse(was?.Config.Labels?.['dev.skycap.placeholders'] ?? '[]') as string[];
    await this.#c.holder.prune(await this.#placeholders.end(containerId, made));
  }

  async #discard(containerId: string, places: ContainerPlaces): Promise<void> {
    const { api } = this.#c;
    const found = await api.inspect(containerName(containerId));
    await api.remove(containerName(containerId));
    await api.removeVolume(`${containerName(containerId)}-outputs`);
    await removePlaces(places);
    await this.#afterwards(containerId, found);
  }

  #placesWithOutput(containerId: string): ContainerPlaces {
    const sensitive = placesOf(this.#c.paths, { runId: this.runId, containerId, sensitive: true });
    if (existsSync(sensitive.directory)) return sensitive;
    return placesOf(this.#c.paths, { runId: this.runId, containerId, sensitive: false });
  }

  async #find(containerId: string): Promise<ContainerInspect | undefined> {
    const found = await this.#c.api.inspect(containerName(containerId));
    return found?.Config.Labels?.[LABEL.run] === this.runId ? found : undefined;
  }

  #image(name: string): { readonly image: PinnedImage; readonly id: string } {
    const found = this.#c.images.get(name);
    if (found !== undefined) return found;
    throw engineError('ENGINE_RUN_INVALID', `the session has no image ${name}`);
  }
}

interface Prepared {
  readonly name: string;
  readonly places: ContainerPlaces;
  readonly mark: string;
  readonly supervisor: SupervisorProcess | undefined;
}

function unknown(containerId: string, runId: string): Error {
  return engineError('ENGINE_CONTAINER_UNKNOWN', `there is no container ${containerId} in run ${runId}`);
}

const NO_ACCOUNTS: Accounts = { passwd: undefined, group: undefined };
const NOTHING_KNOWN: ContainerExit = {
  exitCode: -1,
  cause: 'unknown',
  startedAt: '',
  finishedAt: '',
  message: 'the container is gone, and nothing tells how it ended',
};
