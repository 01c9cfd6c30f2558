import type { PinnedImage } from '../../oci/index.ts';
import { engineError } from '../errors.ts';
import type { ContainerRun } from '../port.ts';
import type { CreateBody, Mount } from './api-types.ts';
import type { DaemonFacts } from './daemon.ts';
import { HELPER_PATH } from './helper/index.ts';
import { containerName, installationVolumeName, LABEL, labelsOf, runName } from './names.ts';
import { WORKSPACE_PATH } from './placement.ts';

const SHARED_HOME = '/home/nonroot';

export interface BodyContext {
  readonly runId: string;
  readonly installationId: string;
  readonly image: PinnedImage;
  /** As the daemon knows it. */
  readonly imageId: string;
  readonly facts: Pick<DaemonFacts, 'local' | 'socketGid' | 'limits'>;
  readonly socketPath: string;
  readonly workspaceVolume: string;
  /** Begins the report of a command that could not be executed. */
  readonly mark: string;
  /** Our first process: `mounted` from here, `written` by archive; `docker-init` where we have none. */
  readonly init:
    | { readonly kind: 'mounted'; readonly source: string }
    | { readonly kind: 'written' }
    | { readonly kind: 'docker-init' };
  readonly mountedFiles: readonly {
    readonly source: string;
    readonly path: string;
    readonly readOnly: boolean;
  }[];
  /** Entries of the workspace that were made only to be mounted over. */
  readonly placeholders: readonly string[];
  readonly shell: boolean;
}

/** The API's description of a step's container. */
export function containerBody(run: ContainerRun, context: BodyContext): CreateBody {
  const command = context.shell ? ['sh'] : run.argv;
  const outputs = `${containerName(run.containerId)}-outputs`;
  const env = environment(run, context.image);
  return {
    Image: context.imageId,
    // A terminal's shell is the first process itself, so that job control works.
    Entrypoint:
      context.init.kind === 'docker-init' || context.shell
        ? command
        : [HELPER_PATH, 'run', context.mark, ...command],
    Cmd: [],
    Env: env,
    User: run.user,
    WorkingDir: run.workingDir,
    Labels: labelsOf(context.runId, context.shell ? 'shell' : 'step', {
      [LABEL.container]: run.containerId,
      [LABEL.installation]: context.installationId,
      [LABEL.mark]: context.init.kind === 'docker-init' ? '' : context.mark,
      [LABEL.outputs]: run.outputsDir,
      'dev.skycap.placeholders': JSON.stringify(context.placeholders),
    }),
    Tty: context.shell,
    OpenStdin: context.shell,
    StdinOnce: context.shell,
    AttachStdin: false,
    AttachStdout: true,
    AttachStderr: true,
    // A health check would start further processes in the step.
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      NetworkMode: networkMode(run, context.runId),
      Mounts: [...mounts(run, context), volume(outputs, run.outputsDir, labelsOf(context.runId, 'volume'))],
      Init: context.init.kind === 'docker-init' && !context.shell,
      // The supervisor keeps the output: the daemon's own drivers change bytes, and would keep secrets on disk.
      LogConfig: { Type: 'none', Config: {} },
      ...confinement(run, context),
      ...limits(run, context.facts.limits),
    },
  };
}

function environment(run: ContainerRun, image: PinnedImage): string[] {
  const env =
    run.home === 'shared' && run.env.HOME === undefined ? { ...run.env, HOME: SHARED_HOME } : run.env;
  const given = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  // A name without `=` takes a variable away that the daemon or the image would add.
  const added = ['PATH', 'HOSTNAME', ...image.config.env.map((line) => line.split('=', 1)[0] as string)];
  return [...given, ...new Set(added.filter((name) => !Object.hasOwn(env, name)))];
}

function networkMode(run: ContainerRun, runId: string): string {
  if (run.network === 'default') return runName(runId, 'network');
  return run.network;
}

function mounts(run: ContainerRun, context: BodyContext): Mount[] {
  const mine = labelsOf(context.runId, 'volume');
  const list: Mount[] = [];
  if (run.workspace !== 'none') {
    list.push(volume(context.workspaceVolume, WORKSPACE_PATH, mine, run.workspace === 'ro'));
  }
  if (run.home === 'shared') {
    list.push(volume(runName(context.runId, 'home'), SHARED_HOME, mine));
    list.push(volume(runName(context.runId, 'home'), '/root', mine));
    list.push(volume(runName(context.runId, 'tmp'), '/tmp', mine));
  }
  for (const wanted of run.volumes) {
    const { name, labels } = volumeOf(wanted, context);
    list.push(volume(name, wanted.path, labels));
  }
  if (context.init.kind === 'mounted' && !context.shell) {
    list.push({ Type: 'bind', Source: context.init.source, Target: HELPER_PATH, ReadOnly: true });
  }
  for (const file of context.mountedFiles) {
    list.push({ Type: 'bind', Source: file.source, Target: file.path, ReadOnly: file.readOnly });
  }
  if (run.dockerSocket) {
    list.push({ Type: 'bind', Source: context.socketPath, Target: '/var/run/docker.sock', ReadOnly: false });
  }
  return list;
}

/** A volume of the run goes with it; one of the installation carries the installation's id. */
export function volumeOf(
  wanted: ContainerRun['volumes'][number],
  of: { readonly runId: string; readonly installationId: string },
): { readonly name: string; readonly labels: Readonly<Record<string, string>> } {
  if (wanted.scope === 'run') {
    return { name: runName(of.runId, `volume-${wanted.name}`), labels: labelsOf(of.runId, 'volume') };
  }
  return {
    name: installationVolumeName(of.installationId, wanted.name),
    labels: { [LABEL.installation]: of.installationId, [LABEL.role]: 'volume' },
  };
}

function volume(
  name: string,
  path: string,
  labels: Readonly<Record<string, string>>,
  readOnly = false,
): Mount {
  return {
    Type: 'volume',
    Source: name,
    Target: path,
    ReadOnly: readOnly,
    // Otherwise the daemon fills an empty volume with what the image has there.
    VolumeOptions: { NoCopy: true, Labels: labels },
  };
}

function confinement(run: ContainerRun, context: BodyContext): Partial<CreateBody['HostConfig']> {
  const { socketGid } = context.facts;
  const groups = run.dockerSocket && socketGid !== undefined ? { GroupAdd: [String(socketGid)] } : {};
  if (run.privileged) return { Privileged: true, ...groups };
  return { CapDrop: ['NET_RAW'], SecurityOpt: ['no-new-privileges'], ...groups };
}

function limits(run: ContainerRun, can: DaemonFacts['limits']): Partial<CreateBody['HostConfig']> {
  const { cpus, memoryBytes, pids } = run.resources;
  if (cpus !== undefined && !can.cpus) throw unsupported('cpus');
  if (memoryBytes !== undefined && !can.memory) throw unsupported('memory');
  if (pids !== undefined && !can.pids) throw unsupported('pids');
  return {
    ...(cpus === undefined ? {} : { NanoCpus: Math.round(cpus * 1e9) }),
    // No swap on top, else the limit is twice what was said.
    ...(memoryBytes === undefined ? {} : { Memory: memoryBytes, MemorySwap: memoryBytes }),
    ...(pids === undefined ? {} : { PidsLimit: pids }),
  };
}

function unsupported(what: string): Error {
  return engineError('ENGINE_LIMIT_UNSUPPORTED', `this Docker daemon cannot limit ${what}`, {
    hint: 'switch on the cgroup controller on the daemon’s host, or take the limit out of `resources`',
  });
}
