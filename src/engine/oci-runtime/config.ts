import type { ContainerRun } from '../port.ts';
import { embeddedIdMap } from './id-map.ts';
import { seccompProfile } from './seccomp-profile.ts';
import type { ContainerUser } from './users.ts';

/** Where the init of every container lies inside; /dev is a tmpfs of ours in each. */
const INIT_PATH = '/dev/.init';

/** Docker's capabilities (moby, oci/caps/defaults.go) without NET_RAW. */
const CAPABILITIES = [
  'CAP_CHOWN',
  'CAP_DAC_OVERRIDE',
  'CAP_FSETID',
  'CAP_FOWNER',
  'CAP_MKNOD',
  'CAP_SETGID',
  'CAP_SETUID',
  'CAP_SETFCAP',
  'CAP_SETPCAP',
  'CAP_NET_BIND_SERVICE',
  'CAP_SYS_CHROOT',
  'CAP_KILL',
  'CAP_AUDIT_WRITE',
];
const MORE_CAPABILITIES =
  `AUDIT_CONTROL AUDIT_READ BLOCK_SUSPEND BPF CHECKPOINT_RESTORE DAC_READ_SEARCH IPC_LOCK
  IPC_OWNER LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE NET_ADMIN NET_BROADCAST NET_RAW PERFMON SYSLOG SYS_ADMIN
  SYS_BOOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM`
    .split(/\s+/)
    .map((name) => `CAP_${name}`);

const MASKED_PATHS = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/interrupts',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/sys/devices/virtual/powercap',
  '/sys/firmware',
  '/sys/fs/selinux',
];
const READONLY_PATHS = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

export interface OciMount {
  readonly destination: string;
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}

export interface ConfigParts {
  readonly rootfs: string;
  readonly user: ContainerUser;
  /** Binds of workspace, home, volumes, files and outputs, in the order in which they are made. */
  readonly binds: readonly OciMount[];
  /** Path of the session's network namespace, as the holder sees it. */
  readonly networkNamespace: string | undefined;
  readonly initProgram: string;
  /** The compiled filter, base64; without it the runtime compiles the profile at each start. */
  readonly seccompProgram: string | undefined;
  /** A group of the host that must exist inside as well: the owner of the Docker socket. */
  readonly extraHostGid?: number;
  readonly terminal?: boolean;
}

/** The OCI runtime configuration of one container (runtime-spec, config.md). */
export function containerConfig(run: ContainerRun, parts: ConfigParts): Record<string, unknown> {
  const capabilities = run.privileged ? [...CAPABILITIES, ...MORE_CAPABILITIES] : CAPABILITIES;
  const seccomp = run.privileged ? {} : confinement(parts);
  const gidMappings = [{ containerID: 0, hostID: embeddedIdMap.hostBase, size: embeddedIdMap.size }];
  const extraGids: number[] = [];
  if (parts.extraHostGid !== undefined) {
    gidMappings.push({ containerID: embeddedIdMap.size, hostID: parts.extraHostGid, size: 1 });
    extraGids.push(embeddedIdMap.size);
  }
  return {
    ociVersion: '1.0.2',
    hostname: run.containerId.slice(0, 63),
    root: { path: parts.rootfs, readonly: false },
    process: {
      terminal: parts.terminal === true,
      user: {
        uid: parts.user.uid,
        gid: parts.user.gid,
        additionalGids: [...parts.user.additionalGids, ...extraGids],
        umask: 0o022,
      },
      args: parts.terminal === true ? run.argv : [INIT_PATH, ...run.argv],
      env: Object.entries(run.env).map(([name, value]) => `${name}=${value}`),
      cwd: run.workingDir,
      noNewPrivileges: true,
      oomScoreAdj: 0,
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    },
    mounts: [...systemMounts(run), ...parts.binds, ...initMount(parts)],
    linux: {
      namespaces: [
        { type: 'pid' },
        { type: 'ipc' },
        { type: 'uts' },
        { type: 'mount' },
        { type: 'user' },
        ...(run.network === 'none' ? [{ type: 'network' }] : []),
        ...(run.network === 'default' ? [{ type: 'network', path: parts.networkNamespace }] : []),
      ],
      uidMappings: [{ containerID: 0, hostID: embeddedIdMap.hostBase, size: embeddedIdMap.size }],
      gidMappings,
      maskedPaths: run.privileged ? [] : MASKED_PATHS,
      readonlyPaths: run.privileged ? [] : READONLY_PATHS,
      ...(seccomp.profile === undefined ? {} : { seccomp: seccomp.profile }),
    },
    ...(seccomp.annotations === undefined ? {} : { annotations: seccomp.annotations }),
  };
}

function confinement(parts: ConfigParts): { profile?: unknown; annotations?: Record<string, string> } {
  const program = parts.seccompProgram;
  if (program === undefined) return { profile: seccompProfile(process.arch) };
  // The annotation replaces the compiler, and only where there is a profile to replace.
  return { profile: seccompProfile(process.arch), annotations: { 'run.oci.seccomp_bpf_data': program } };
}

function systemMounts(run: ContainerRun): OciMount[] {
  const safe = ['nosuid', 'noexec', 'nodev'];
  const mount = (destination: string, type: string, options: readonly string[]): OciMount => ({
    destination,
    type,
    source: type,
    options,
  });
  return [
    mount('/proc', 'proc', safe),
    mount('/dev', 'tmpfs', ['nosuid', 'strictatime', 'mode=755', 'size=65536k']),
    mount('/dev/pts', 'devpts', ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5']),
    mount('/dev/shm', 'tmpfs', [...safe, 'mode=1777', 'size=65536k']),
    mount('/dev/mqueue', 'mqueue', safe),
    ...(run.network === 'none' ? [mount('/sys', 'sysfs', [...safe, 'ro'])] : []),
  ];
}

function initMount(parts: ConfigParts): OciMount[] {
  if (parts.terminal === true) return [];
  return [
    {
      destination: INIT_PATH,
      type: 'bind',
      source: parts.initProgram,
      options: ['bind', 'ro', 'nosuid', 'nodev'],
    },
  ];
}

/**
 * A bind that every step sees as its own user's: on disk all belongs to `owner`, inside to `user`; the two change
 * places in the map and all other ids stay, so that a program that changes its user can still write
 * (crun(1), "idmap mount options": FROM on disk, TO as the mount shows it).
 */
export function ownedBind(
  source: string,
  destination: string,
  options: {
    readonly owner: { readonly uid: number; readonly gid: number };
    readonly user: { readonly uid: number; readonly gid: number };
    readonly readOnly: boolean;
  },
): OciMount {
  const { owner, user } = options;
  const uids = swapped(owner.uid, embeddedIdMap.hostBase + user.uid);
  const gids = swapped(owner.gid, embeddedIdMap.hostBase + user.gid);
  return {
    destination,
    type: 'bind',
    source,
    options: [
      'bind',
      options.readOnly ? 'ro' : 'rw',
      'nosuid',
      'nodev',
      `idmap=uids=${uids.join('#')};gids=${gids.join('#')}`,
    ],
  };
}

/** The identity over the map's ids, but for two that change places. */
function swapped(disk: number, shown: number): string[] {
  const first = embeddedIdMap.hostBase;
  const last = first + embeddedIdMap.size - 1;
  const ranges = [`${disk}-${shown}-1`];
  if (shown > first) ranges.push(`${first}-${first}-${shown - first}`);
  if (shown < last) ranges.push(`${shown + 1}-${shown + 1}-${last - shown}`);
  return ranges;
}
