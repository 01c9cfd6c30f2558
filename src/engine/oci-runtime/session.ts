import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { failpoint, ignoreEvents } from '../../kernel/index.ts';
import type { Digest, PinnedImage } from '../../oci/index.ts';
import { cancelledBefore } from '../cancelled.ts';
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
  SessionSpec,
  Workspace,
} from '../port.ts';
import { checkRun } from '../run-check.ts';
import { Collector } from '../tree/collect.ts';
import { packFrom } from '../tree/contents.ts';
import { Folder } from '../tree/folder.ts';
import { resolveInside } from '../tree/scoped.ts';
import { addImage } from './add-image.ts';
import { collectPaths } from './collect.ts';
import { type ContainerRecord, follow, killContainer, readRecord, removeContainer } from './container.ts';
import { ContainerMaker, type SessionHost } from './create.ts';
import { endHolders } from './ending.ts';
import { Holder } from './holder.ts';
import { embeddedIdMap } from './id-map.ts';
import { KEPT_MS, keepContainer, keptLease, RUN_MS, runLease } from './keep.ts';
import {
  containerFolder,
  containerIds,
  holderFolders,
  installationVolumes,
  isSafeId,
  type RunLayout,
} from './layout.ts';
import { checkLayers, Overlays } from './overlays.ts';
import { SharedFolders } from './shared-folders.ts';
import { faultOf, noSpace, unprepared } from './unprepared.ts';

export class RuntimeSession implements Session {
  readonly runId: string;
  readonly workspace: Workspace;
  readonly #host: SessionHost;
  readonly #spec: SessionSpec;
  readonly #layout: RunLayout;
  readonly #operation: OperationOptions;
  /** Ended and recorded: deleted while the next container starts, which waits for nothing then. */
  readonly #released = new Map<string, ContainerRecord>();
  readonly #releasing = new Set<Promise<void>>();
  /** Their end was told, and they never started. */
  readonly #neverStarted = new Set<string>();
  readonly #shared: SharedFolders;
  readonly #maker: ContainerMaker;
  #opened: Promise<Opened> | undefined;
  #lease: AsyncDisposable | undefined;
  #isAdopted = false;

  constructor(host: SessionHost, spec: SessionSpec, layout: RunLayout, operation: OperationOptions) {
    this.#host = host;
    this.#spec = spec;
    this.#layout = layout;
    this.#operation = operation;
    this.runId = spec.runId;
    const volumes = installationVolumes(host.directories, spec.installationId);
    this.#shared = new SharedFolders(layout, host.owner, volumes);
    this.workspace = this.#shared.workspace;
    this.#maker = new ContainerMaker(host, layout, {
      installationId: spec.installationId,
      shared: this.#shared,
    });
  }

  /** Mounts and network; everything a container needs but its own root. */
  ready(): Promise<Opened> {
    this.#opened ??= this.#open();
    return this.#opened;
  }

  /** For a session of another process: that one's lease may have run out, and nobody else ends it. */
  async takeOver(): Promise<void> {
    this.#isAdopted = true;
    await this.#leaseImages();
  }

  /** The images' layers may be pruned from now on. */
  async endLease(): Promise<void> {
    await this.#lease?.[Symbol.asyncDispose]();
    if (this.#isAdopted) await this.#host.store.endLeases?.(runLease(this.runId));
  }

  async imageArchive(image: string, path: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const { overlays } = await this.ready();
    this.#known(overlays, image);
    const overlay = await overlays.mountNew(image);
    const { real, missing } = resolveInside(overlay.reachable, path);
    const folder = join(overlay.reachable, ...real);
    if (missing.length > 0 || !isFolder(folder)) {
      overlays.retire(overlay.name);
      return undefined;
    }
    return (async function* () {
      try {
        using opened = Folder.open(folder);
        yield* packFrom(folder, opened.names());
      } finally {
        overlays.retire(overlay.name);
      }
    })();
  }

  async run(run: ContainerRun, io: ContainerIo): Promise<ContainerExit> {
    checkRun(run);
    const opened = await this.ready();
    this.#known(opened.overlays, run.image);
    if (existsSync(containerFolder(this.#layout, run.containerId))) {
      throw engineError(
        'ENGINE_RUN_INVALID',
        `container ${run.containerId} exists already in run ${this.runId}`,
      );
    }
    const overlay = await opened.overlays.take(run.image, AbortSignal.any([io.signal, io.kill]));
    if (overlay === undefined) {
      this.#neverStarted.add(run.containerId);
      return cancelledBefore();
    }
    let record: ContainerRecord | undefined;
    try {
      record = this.#maker.create(run, overlay, {
        holder: opened.holder,
        terminal: false,
        program: opened.program,
      });
    } catch (cause) {
      // Its mounts are gone with it, and what was made in them is not found.
      throw opened.holder.whyGone() ?? unprepared(cause, run, this.#layout);
    } finally {
      if (record === undefined) {
        opened.overlays.retire(overlay.name);
        rmSync(containerFolder(this.#layout, run.containerId), { recursive: true, force: true });
      }
    }
    failpoint('create');
    const timeout = run.timeoutMs === undefined ? '-' : seconds(run.timeoutMs);
    opened.holder.order(
      `run ${run.containerId} ${run.sensitive ? 'mem' : 'disk'} ${timeout} ${seconds(run.graceMs)}`,
    );
    failpoint('start');
    // What they give back needs no other to be made ready.
    this.#removeReleased(opened.overlays);
    opened.overlays.prepare(run.image, (overlay) => this.#maker.makeAhead(run.image, overlay));
    const exit = await this.#follow(record, io);
    if (exit === undefined) {
      const never = `container ${run.containerId} was never started: its session is gone`;
      throw opened.holder.whyGone() ?? engineError('ENGINE_START_FAILED', never);
    }
    return exit;
  }

  async attach(containerId: string, io: ContainerIo): Promise<ContainerExit | undefined> {
    const record = isSafeId(containerId) ? readRecord(this.#layout, containerId) : undefined;
    return record === undefined ? undefined : await this.#follow(record, io);
  }

  async collect(containerId: string, request: CollectRequest): Promise<readonly CollectedFile[]> {
    const record = this.#record(containerId);
    if (record === undefined) {
      if (this.#neverStarted.has(containerId)) return [];
      throw engineError(
        'ENGINE_CONTAINER_UNKNOWN',
        `there is no container ${containerId} in run ${this.runId}`,
      );
    }
    const collector = new Collector(request, (message) =>
      this.#operation.emit({ type: 'engine.notice', message }),
    );
    collectPaths(this.#layout, record, { collector, paths: request.paths });
    return collector.files;
  }

  async release(
    containerId: string,
    options: { readonly keep: boolean },
  ): Promise<KeptContainer | undefined> {
    const record = this.#record(containerId);
    if (record === undefined) return undefined;
    await killContainer(this.#layout, containerId);
    if (options.keep) {
      // Two mounts may not share a writable layer.
      await (await this.#opened)?.holder.unmount([record.overlay]);
      const image = this.#spec.images[record.image];
      if (image !== undefined)
        await this.#host.store.lease(keptLease(this.runId), digestsOf(image), { ttlMs: KEPT_MS });
      return keepContainer(this.#host, this.#layout, { record, lowers: await this.#lowers(record.image) });
    }
    this.#freeMountPoints(record);
    this.#released.set(containerId, record);
    return undefined;
  }

  async shellCommand(run: ContainerRun): Promise<readonly string[]> {
    const opened = await this.ready();
    const containerId = `${run.containerId.slice(0, 100)}-shell`;
    await this.#removeIfAny(containerId, opened.overlays);
    const again = { ...run, containerId, sensitive: true, timeoutMs: 0 };
    const overlay = await opened.overlays.take(run.image);
    this.#maker.create(again, overlay, { holder: opened.holder, terminal: true, program: opened.program });
    return [
      'nsenter',
      `--mount=/proc/${opened.holder.pid}/ns/mnt`,
      this.#host.runtime,
      '--root',
      join(this.#layout.control, 'crun'),
      '--cgroup-manager=disabled',
      'run',
      '--bundle',
      containerFolder(this.#layout, containerId),
      containerId,
    ];
  }

  async close(options: { readonly keepWorkspace: boolean }): Promise<void> {
    const ids = containerIds(this.#layout);
    await Promise.all(ids.map((id) => killContainer(this.#layout, id)));
    const opened = await this.#opened?.catch(() => undefined);
    this.#removeReleased(opened?.overlays);
    await Promise.allSettled(this.#releasing);
    await opened?.overlays.settled();
    await opened?.holder.end();
    await endHolders(this.#layout, { patient: true });
    await this.endLease();
    for (const id of containerIds(this.#layout)) {
      const record = readRecord(this.#layout, id);
      if (record !== undefined) await removeContainer(this.#layout, record);
    }
    rmSync(this.#layout.control, { recursive: true, force: true, maxRetries: 3 });
    if (options.keepWorkspace || existsSync(this.#layout.kept)) this.#shared.tidy(options.keepWorkspace);
    else rmSync(this.#layout.disk, { recursive: true, force: true });
  }

  #follow(record: ContainerRecord, io: ContainerIo): Promise<ContainerExit | undefined> {
    return follow(this.#layout, record, {
      onOutput: (stream, chunk) => io.onOutput(stream, chunk),
      onStarted: () => io.onStarted?.(),
      signal: io.signal,
      kill: io.kill,
      onNotice: (message) => this.#operation.emit({ type: 'engine.notice', message }),
    });
  }

  #record(containerId: string): ContainerRecord | undefined {
    const isHere = isSafeId(containerId) && !this.#released.has(containerId);
    return isHere ? readRecord(this.#layout, containerId) : undefined;
  }

  #removeReleased(overlays: Overlays | undefined): void {
    for (const record of this.#released.values()) {
      const work = this.#remove(record, overlays);
      this.#releasing.add(work);
      void work.finally(() => this.#releasing.delete(work)).catch(() => {});
    }
    this.#released.clear();
  }

  async #remove(record: ContainerRecord, overlays: Overlays | undefined): Promise<void> {
    const rootServesAgain = this.#maker.recover(record);
    if (rootServesAgain) overlays?.giveBack(record);
    else overlays?.retire(record.overlay);
    await removeContainer(this.#layout, record, { output: this.#maker.output, rootServesAgain });
  }

  #freeMountPoints(record: ContainerRecord): void {
    const others = containerIds(this.#layout).filter(
      (id) => id !== record.containerId && !this.#released.has(id),
    );
    this.#shared.free(
      record.mounts,
      others.flatMap((id) => readRecord(this.#layout, id)?.mounts ?? []),
    );
  }

  async #removeIfAny(containerId: string, overlays: Overlays): Promise<void> {
    const record = readRecord(this.#layout, containerId);
    if (record !== undefined) await this.#remove(record, overlays);
  }

  #known(overlays: Overlays, image: string): void {
    if (!overlays.has(image)) throw engineError('ENGINE_RUN_INVALID', `the session has no image ${image}`);
  }

  async #lowers(image: string) {
    const pinned = this.#spec.images[image];
    return pinned === undefined
      ? []
      : await this.#host.store.lowers(pinned, embeddedIdMap, {
          signal: this.#operation.signal,
          emit: ignoreEvents,
          form: this.#host.layers.form,
        });
  }

  async #open(): Promise<Opened> {
    const { directories, runtime } = this.#host;
    const images = Object.entries(this.#spec.images);
    // All of them before the first is unpacked.
    for (const [name, { layers }] of images) checkLayers(name, layers.length);
    mkdirSync(this.#layout.control, { recursive: true, mode: 0o711 });
    const holder = Holder.start({
      runFolder: this.#layout.control,
      generation: holderFolders(this.#layout).length,
      outputFolder: this.#layout.output,
      stateDirectory: directories.state,
      runtime,
      mountProgram: this.#host.mountProgram,
      network: this.#spec.network,
      onNotice: (message) => this.#operation.emit({ type: 'engine.notice', message }),
    });
    try {
      await this.#leaseImages();
      const program = this.#host.seccompProgram(this.#operation.signal);
      const overlays = new Overlays(this.#layout, holder, holderFolders(this.#layout).length * 1_000_000);
      for (const [name, image] of images)
        await addImage(name, image, {
          host: this.#host,
          operation: this.#operation,
          overlays,
          holder,
        }).catch(faultOf(name));
      await holder.ready;
      for (const [name] of images) overlays.prepare(name);
      return { holder, overlays, program: await program };
    } catch (cause) {
      await holder.end();
      throw noSpace(cause, this.#layout);
    }
  }

  async #leaseImages(): Promise<void> {
    const digests = Object.values(this.#spec.images).flatMap(digestsOf);
    this.#lease ??= await this.#host.store.lease(runLease(this.runId), digests, { ttlMs: RUN_MS });
  }
}

export interface Opened {
  readonly holder: Holder;
  readonly overlays: Overlays;
  readonly program: string | undefined;
}

function digestsOf(image: PinnedImage): readonly Digest[] {
  return [image.manifestDigest, image.configDigest, ...image.layers.map((layer) => layer.digest)];
}

function isFolder(path: string): boolean {
  try {
    using _ = Folder.open(path);
    return true;
  } catch {
    return false;
  }
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}
