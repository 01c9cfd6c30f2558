import { randomUUID } from 'node:crypto';
import { chmod, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isSkycapError } from '../../kernel/index.ts';
import type { DockerApi } from './api.ts';
import { HELPER_PATH, helperBinary, helperImage } from './helper/index.ts';
import { gather, readItems } from './tar.ts';

/** What is known of a daemon, asked once. */
export interface DaemonFacts {
  /** It sees this host's files: bind mounts work, and its socket is this host's. */
  readonly local: boolean;
  /** Files can be given to a container's user by chown: started by root, and ids are not remapped. */
  readonly canChown: boolean;
  /** GOARCH. */
  readonly architecture: string;
  readonly helperId: string;
  /** Group of the socket, for steps that may use it. */
  readonly socketGid: number | undefined;
  readonly limits: { readonly memory: boolean; readonly pids: boolean; readonly cpus: boolean };
}

export interface DaemonPaths {
  /** On a tmpfs, 0700: secret files, raw output of steps that see secrets. */
  readonly runtimeDirectory: string;
  /** On disk, 0700: other raw output. */
  readonly workDirectory: string;
}

/** Brings the helper's image and finds out what this daemon can do. */
export async function learnDaemon(api: DockerApi, paths: DaemonPaths, uid: number): Promise<DaemonFacts> {
  const [{ Arch }, info] = await Promise.all([api.version(), api.info()]);
  const image = await helperImage(Arch);
  if (!(await hasImage(api, image.id))) {
    await api.run({
      method: 'POST',
      path: '/images/load',
      query: { quiet: '1' },
      body: image.archive(),
      doing: 'load the helper image',
    });
  }
  const local = await seesOurFiles(api, image.id, paths.runtimeDirectory);
  const remapped = (info.SecurityOptions ?? []).some((option) => /name=(userns|rootless)/.test(option));
  return {
    local,
    canChown: local && uid === 0 && !remapped,
    architecture: Arch,
    helperId: image.id,
    socketGid: await stat(api.socketPath).then(
      ({ gid }) => gid,
      () => undefined,
    ),
    limits: { memory: info.MemoryLimit, pids: info.PidsLimit, cpus: info.CpuCfsQuota },
  };
}

/** The helper as a file that can be mounted into steps' containers; only for a local daemon. */
export async function helperFile(paths: DaemonPaths, architecture: string): Promise<string | undefined> {
  const binary = helperBinary(architecture);
  if (binary === undefined) return undefined;
  const folder = join(paths.workDirectory, 'helper');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, architecture);
  const temporary = `${file}.${randomUUID()}`;
  await writeFile(temporary, binary, { mode: 0o555, flag: 'wx' });
  await chmod(temporary, 0o555);
  const { rename } = await import('node:fs/promises');
  await rename(temporary, file);
  return file;
}

async function hasImage(api: DockerApi, id: string): Promise<boolean> {
  const status = await api.run({
    path: `/images/${id}/json`,
    accept: [404],
    doing: 'look for the helper image',
  });
  return status === 200;
}

/** Whether a file made here is the same file there: a daemon behind a forwarded socket has other files. */
async function seesOurFiles(api: DockerApi, image: string, directory: string): Promise<boolean> {
  const secret = randomUUID();
  const source = join(directory, `probe-${secret}`);
  await writeFile(source, secret, { mode: 0o600, flag: 'wx' });
  const name = `skycap-probe-${secret}`;
  try {
    await api.run({
      method: 'POST',
      path: '/containers/create',
      query: { name },
      json: {
        Image: image,
        Entrypoint: [HELPER_PATH],
        Cmd: ['pause'],
        HostConfig: {
          NetworkMode: 'none',
          Mounts: [{ Type: 'bind', Source: source, Target: '/probe', ReadOnly: true }],
        },
      },
      doing: 'create a probe',
    });
    const archive = await api.getArchive(name, '/probe');
    if (archive === undefined) return false;
    for await (const { body } of readItems(archive)) {
      return Buffer.concat(await gather(body)).toString() === secret;
    }
    return false;
  } catch (error) {
    // "bind source path does not exist"
    if (isSkycapError(error, 'ENGINE_DOCKER_FAILED') && error.details?.status === 400) return false;
    throw error;
  } finally {
    await api.remove(name);
    await rm(source, { force: true });
  }
}
