import type { PinnedImage } from '../../oci/index.ts';
import { engineError } from '../errors.ts';
import type { DockerApi } from './api.ts';
import { GO_SYMLINK } from './api-types.ts';
import { HELPER_PATH } from './helper/index.ts';
import { LABEL, labelsOf, runName } from './names.ts';
import { directoryItem, type Owner, packItems, textOf } from './tar.ts';

export interface HolderSpec {
  readonly runId: string;
  readonly installationId: string;
  readonly helperId: string;
  readonly workspaceVolume: string;
  readonly images: Readonly<Record<string, PinnedImage>>;
}

const ROOT: Owner = { uid: 0, gid: 0 };
const ARGUMENT_BYTES = 64 * 1024;

/**
 * The container that stands for a session: made of the helper's image, never running anything of a bundle. Files go
 * into and out of the volumes through it, and its labels say to a later process what belongs to the run. It is
 * started only for what the archive endpoint cannot do: changing owners and removing.
 */
export class Holder {
  readonly api: DockerApi;
  readonly name: string;
  readonly path = '/workspace';
  readonly workspaceVolume: string;
  /** Of every entry of the workspace, as far as this process knows. */
  owner: Owner = ROOT;
  #known = false;
  #running: Promise<void> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #owners = new Map<string, string>();

  constructor(api: DockerApi, name: string, workspaceVolume: string) {
    this.api = api;
    this.name = name;
    this.workspaceVolume = workspaceVolume;
  }

  static async create(api: DockerApi, spec: HolderSpec): Promise<Holder> {
    const name = runName(spec.runId, 'holder');
    const labels = labelsOf(spec.runId, 'volume');
    const mount = (source: string, target: string) => ({
      Type: 'volume',
      Source: source,
      Target: target,
      VolumeOptions: { NoCopy: true, Labels: labels },
    });
    await api.run({
      method: 'POST',
      path: '/containers/create',
      query: { name },
      json: {
        Image: spec.helperId,
        Entrypoint: [HELPER_PATH],
        Cmd: ['pause'],
        User: '0:0',
        Labels: labelsOf(spec.runId, 'holder', {
          [LABEL.installation]: spec.installationId,
          [LABEL.workspace]: spec.workspaceVolume,
          [LABEL.images]: JSON.stringify(spec.images),
        }),
        HostConfig: {
          NetworkMode: 'none',
          Mounts: [
            mount(spec.workspaceVolume, '/workspace'),
            mount(runName(spec.runId, 'home'), '/home'),
            mount(runName(spec.runId, 'tmp'), '/shared-tmp'),
          ],
          LogConfig: { Type: 'none' },
          ...HELPER_CONFINEMENT,
        },
      },
      doing: 'create the workspace',
    });
    const holder = new Holder(api, name, spec.workspaceVolume);
    const start = packItems([
      directoryItem('workspace/outputs', 0o755, ROOT),
      directoryItem('shared-tmp', 0o1777, ROOT),
      directoryItem('home', 0o755, ROOT),
    ]);
    await api.putArchive(name, '/', start);
    return holder;
  }

  /**
   * Gives the workspace and the shared home to a step's user. Nothing is walked while the user stays the same.
   * Links are never followed (a container may have put them there).
   */
  async give(owner: Owner, what: { readonly workspace: boolean; readonly home: boolean }): Promise<void> {
    await this.#inTurn(async () => {
      const folders: string[] = [];
      const settled = this.#known && keyOf(this.owner) === keyOf(owner);
      if (what.workspace && !settled) folders.push('/workspace');
      if (what.home && this.#owners.get('/home') !== keyOf(owner)) folders.push('/home', '/shared-tmp');
      if (folders.length === 0) return;
      await this.#exec(['own', String(owner.uid), String(owner.gid), ...folders]);
      if (folders.includes('/workspace')) {
        this.owner = owner;
        this.#known = true;
      }
      if (folders.includes('/home')) this.#owners.set('/home', keyOf(owner));
    });
  }

  /** Gives another volume, which the holder does not mount, to a step's user. */
  async giveVolume(
    volume: string,
    owner: Owner,
    options: {
      readonly runId: string;
      readonly helperId: string;
      readonly labels: Readonly<Record<string, string>>;
    },
  ): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#owners.get(volume) === keyOf(owner)) return;
      const name = `${this.name}-own`;
      await this.api.remove(name);
      await this.api.run({
        method: 'POST',
        path: '/containers/create',
        query: { name },
        json: {
          Image: options.helperId,
          Entrypoint: [HELPER_PATH],
          Cmd: ['own', String(owner.uid), String(owner.gid), '/volume'],
          User: '0:0',
          Labels: labelsOf(options.runId, 'helper'),
          HostConfig: {
            NetworkMode: 'none',
            Mounts: [
              {
                Type: 'volume',
                Source: volume,
                Target: '/volume',
                VolumeOptions: { NoCopy: true, Labels: options.labels },
              },
            ],
            LogConfig: { Type: 'none' },
            ...HELPER_CONFINEMENT,
          },
        },
        doing: 'create a helper',
      });
      try {
        await this.api.run({ method: 'POST', path: `/containers/${name}/start`, doing: 'start a helper' });
        await this.api.wait(name);
        const code = (await this.api.inspect(name))?.State.ExitCode;
        if (code !== 0) throw failed(`volume ${volume} could not be given to user ${owner.uid}`, code);
        this.#owners.set(volume, keyOf(owner));
      } finally {
        await this.api.remove(name);
      }
    });
  }

  /** Removes entries of the workspace (byte strings, relative) with everything below. */
  async remove(paths: readonly string[]): Promise<void> {
    await this.#inTurn(async () => {
      for (const some of chunks(paths.map(textOf))) await this.#exec(['rm', '/workspace', ...some]);
    });
  }

  /** Removes those of the entries that are empty, the deepest first. */
  async prune(paths: readonly string[]): Promise<void> {
    if (paths.length === 0) return;
    const deepestFirst = [...paths].sort((a, b) => b.length - a.length);
    await this.#inTurn(() => this.#exec(['prune', '/workspace', ...deepestFirst]));
  }

  /** Whether a folder on the way to a path is a symbolic link. */
  async isThroughLink(path: string): Promise<boolean> {
    const parts = path.split('/');
    for (let end = 1; end < parts.length; end += 1) {
      const stat = await this.api.stat(this.name, `${this.path}/${parts.slice(0, end).join('/')}`);
      if (stat === undefined) return false;
      if ((stat.mode & GO_SYMLINK) !== 0) return true;
    }
    return false;
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work, work);
    this.#turn = mine.catch(() => {});
    return await mine;
  }

  async #exec(command: readonly string[]): Promise<void> {
    this.#running ??= this.api
      .run({
        method: 'POST',
        path: `/containers/${this.name}/start`,
        accept: [304],
        doing: 'start the helper',
      })
      .then(() => {});
    await this.#running;
    const { Id } = await this.api.json<{ readonly Id: string }>({
      method: 'POST',
      path: `/containers/${this.name}/exec`,
      json: { Cmd: [HELPER_PATH, ...command], User: '0:0', AttachStdout: true, AttachStderr: true },
      doing: 'prepare the helper',
    });
    const answer = await this.api.request({
      method: 'POST',
      path: `/exec/${Id}/start`,
      json: { Detach: false, Tty: false },
      doing: 'run the helper',
    });
    for await (const _ of answer.body); // ends with the command
    const { ExitCode } = await this.api.json<{ readonly ExitCode: number | null }>({
      path: `/exec/${Id}/json`,
      doing: 'ask how the helper ended',
    });
    if (ExitCode !== 0) throw failed(`the workspace could not be changed (${command[0]})`, ExitCode);
  }
}

/** It runs as root over what steps left: nothing but owners and entries is in its power. */
const HELPER_CONFINEMENT = {
  CapDrop: ['ALL'],
  CapAdd: ['CHOWN', 'DAC_OVERRIDE', 'FOWNER'],
  SecurityOpt: ['no-new-privileges'],
  RestartPolicy: { Name: 'no' },
} as const;

function keyOf(owner: Owner): string {
  return `${owner.uid}:${owner.gid}`;
}

function failed(what: string, code: number | null | undefined): Error {
  return engineError('ENGINE_SESSION_FAILED', `${what}: the helper ended with ${code ?? 'no code'}`, {
    hint: 'look at the daemon’s log',
  });
}

function* chunks(values: readonly string[]): Generator<readonly string[]> {
  let some: string[] = [];
  let bytes = 0;
  for (const value of values) {
    if (bytes + value.length > ARGUMENT_BYTES && some.length > 0) {
      yield some;
      some = [];
      bytes = 0;
    }
    some.push(value);
    bytes += Buffer.byteLength(value) + 1;
  }
  if (some.length > 0) yield some;
}
