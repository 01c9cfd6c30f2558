import { constants } from 'node:fs';
import { access, readFile, stat, statfs } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { delimiter, dirname, join } from 'node:path';

/** What is looked at on the machine, as data, so that the judgement is a pure function. */
export interface HostFacts {
  readonly uid: number;
  readonly nodeVersion: string;
  /** ID and ID_LIKE of os-release. */
  readonly distribution: readonly string[];
  /** Absolute path of each program that was found. */
  readonly programs: Readonly<Record<string, string>>;
  readonly filesystems: readonly string[];
  readonly cgroups: 'unified' | 'legacy' | 'mixed' | 'none';
  /** Undefined: the file is not there. */
  readonly maxUserNamespaces?: number;
  readonly unprivilegedUserNamespaces: boolean;
  readonly appArmorRestrictsUserNamespaces: boolean;
  /** Hard limits; Infinity for unlimited. */
  readonly limits: { readonly openFiles: number; readonly processes: number };
  readonly tun: 'usable' | 'denied' | 'missing';
  readonly subordinateIds: boolean;
  readonly docker: { readonly socket: string; readonly state: 'answers' | 'denied' | 'missing' | 'silent' };
  readonly directories: readonly DirectoryFacts[];
}

export interface DirectoryFacts {
  readonly name: string;
  readonly path: string;
  /** Of the folder or its nearest existing parent. */
  readonly writable: boolean;
  readonly freeBytes: number;
  readonly kind: 'local' | 'network' | 'memory';
}

const knownPrograms = [
  'crun',
  'runc',
  'slirp4netns',
  'unshare',
  'nsenter',
  'mount',
  'ip',
  'docker',
  'newuidmap',
] as const;

export interface FactsOptions {
  readonly uid: number;
  readonly user: string;
  readonly path: string;
  readonly nodeVersion: string;
  readonly dockerHost: string | undefined;
  readonly directories: readonly { readonly name: string; readonly path: string }[];
}

export async function gatherFacts(options: FactsOptions): Promise<HostFacts> {
  const socket = (options.dockerHost ?? 'unix:///var/run/docker.sock').replace(/^unix:\/\//, '');
  const maxUserNamespaces = (await text('/proc/sys/user/max_user_namespaces'))?.trim();
  return {
    uid: options.uid,
    nodeVersion: options.nodeVersion,
    distribution: distributionOf((await text('/etc/os-release')) ?? ''),
    programs: await findPrograms(options.path),
    filesystems: ((await text('/proc/filesystems')) ?? '')
      .split('\n')
      .map((line) => line.split('\t').at(-1) ?? ''),
    cgroups: cgroupsOf((await text('/proc/self/mounts')) ?? ''),
    ...(maxUserNamespaces === undefined ? {} : { maxUserNamespaces: Number(maxUserNamespaces) }),
    unprivilegedUserNamespaces:
      ((await text('/proc/sys/kernel/unprivileged_userns_clone')) ?? '1').trim() !== '0',
    appArmorRestrictsUserNamespaces:
      ((await text('/proc/sys/kernel/apparmor_restrict_unprivileged_userns')) ?? '0').trim() === '1',
    limits: limitsOf((await text('/proc/self/limits')) ?? ''),
    tun: await tunState(),
    subordinateIds: ((await text('/etc/subuid')) ?? '')
      .split('\n')
      .some((line) => line.startsWith(`${options.user}:`) || line.startsWith(`${options.uid}:`)),
    docker: { socket, state: await socketState(socket) },
    directories: await Promise.all(options.directories.map(directoryFacts)),
  };
}

async function text(path: string): Promise<string | undefined> {
  return await readFile(path, 'utf8').catch(() => undefined);
}

function distributionOf(osRelease: string): string[] {
  return osRelease.split('\n').flatMap((line) => {
    const match = /^(?:ID|ID_LIKE)="?([^"]*)"?$/.exec(line);
    return match?.[1]?.split(' ') ?? [];
  });
}

async function findPrograms(path: string): Promise<Record<string, string>> {
  const folders = [...path.split(delimiter), '/usr/sbin', '/sbin'].filter((folder) => folder.startsWith('/'));
  const found: Record<string, string> = {};
  for (const program of knownPrograms) {
    for (const folder of folders) {
      const candidate = join(folder, program);
      if (await isExecutable(candidate)) {
        found[program] ??= candidate;
      }
    }
  }
  return found;
}

async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** `mixed`: version 2 beside version 1 controllers, as systemd's hybrid mode and some containers have it. */
export function cgroupsOf(mounts: string): HostFacts['cgroups'] {
  const kinds = new Set(mounts.split('\n').map((line) => line.split(' ')[2]));
  if (kinds.has('cgroup')) {
    return kinds.has('cgroup2') ? 'mixed' : 'legacy';
  }
  return kinds.has('cgroup2') ? 'unified' : 'none';
}

export function limitsOf(limits: string): HostFacts['limits'] {
  const hard = (name: string): number => {
    const value = new RegExp(`^${name}\\s+\\S+\\s+(\\S+)`, 'm').exec(limits)?.[1];
    return value === undefined || value === 'unlimited' ? Number.POSITIVE_INFINITY : Number(value);
  };
  return { openFiles: hard('Max open files'), processes: hard('Max processes') };
}

async function tunState(): Promise<HostFacts['tun']> {
  const path = '/dev/net/tun';
  try {
    await access(path, constants.R_OK | constants.W_OK);
    return 'usable';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'denied';
  }
}

/** A connection shows more than the file: a socket that nobody listens on any more is silent. */
function socketState(path: string): Promise<HostFacts['docker']['state']> {
  if (!path.startsWith('/')) {
    return Promise.resolve('silent');
  }
  return new Promise((resolve) => {
    const connection = createConnection(path);
    connection.setTimeout(2_000, () => settle('silent'));
    connection.on('connect', () => settle('answers'));
    connection.on('error', ({ code }: NodeJS.ErrnoException) => {
      settle(code === 'ENOENT' ? 'missing' : code === 'EACCES' || code === 'EPERM' ? 'denied' : 'silent');
    });
    function settle(state: HostFacts['docker']['state']): void {
      connection.destroy();
      resolve(state);
    }
  });
}

/** statfs(2) magic numbers: NFS, SMB1 and SMB2/CIFS, 9p, FUSE; tmpfs, ramfs. */
const network = new Set([0x6969, 0x517b, 0xfe534d42, 0xff534d42, 0x01021997]);
const memory = new Set([0x01021994, 0x858458f6]);

async function directoryFacts(directory: {
  readonly name: string;
  readonly path: string;
}): Promise<DirectoryFacts> {
  let path = directory.path;
  while (path !== '/' && (await stat(path).catch(() => undefined)) === undefined) {
    path = dirname(path);
  }
  const { type, bavail, bsize } = await statfs(path);
  const isWritable = await access(path, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  );
  return {
    ...directory,
    writable: isWritable,
    freeBytes: bavail * bsize,
    kind: network.has(type) ? 'network' : memory.has(type) ? 'memory' : 'local',
  };
}
