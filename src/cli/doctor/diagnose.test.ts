import { describe, expect, test } from 'vitest';
import { diagnose, hasEngine, installLine } from './diagnose.ts';
import { cgroupsOf, type HostFacts, limitsOf } from './facts.ts';

const healthy: HostFacts = {
  uid: 0,
  nodeVersion: '24.21.0',
  distribution: ['debian'],
  programs: Object.fromEntries(
    ['crun', 'slirp4netns', 'unshare', 'nsenter', 'mount', 'ip', 'docker'].map((name) => [
      name,
      `/usr/bin/${name}`,
    ]),
  ),
  filesystems: ['overlay'],
  cgroups: 'unified',
  maxUserNamespaces: 15_000,
  unprivilegedUserNamespaces: true,
  appArmorRestrictsUserNamespaces: false,
  limits: { openFiles: 1_048_576, processes: Number.POSITIVE_INFINITY },
  tun: 'usable',
  subordinateIds: true,
  docker: { socket: '/var/run/docker.sock', state: 'answers' },
  directories: [{ name: 'state', path: '/s', writable: true, freeBytes: 1e12, kind: 'local' }],
};

test('a healthy host has nothing to mend', () => {
  expect(diagnose(healthy).filter(({ status }) => status !== 'ok')).toEqual([]);
  expect(hasEngine(healthy)).toBe(true);
});

describe('each trouble is named, with what mends it', () => {
  test.each<[string, Partial<HostFacts>, string, string]>([
    ['old Node', { nodeVersion: '20.1.0' }, 'too old', 'Node 24'],
    [
      'no crun',
      { programs: { ...healthy.programs, crun: undefined as unknown as string } },
      'crun is not installed',
      'apt-get install crun',
    ],
    [
      'no slirp4netns',
      { programs: { ...healthy.programs, slirp4netns: undefined as unknown as string } },
      'no network',
      'apt-get install slirp4netns',
    ],
    [
      'mixed cgroups',
      { cgroups: 'mixed' },
      'cgroups in hybrid mode not supported',
      'unified_cgroup_hierarchy',
    ],
    [
      'hard limit',
      { limits: { openFiles: 20_000, processes: 4_096 } },
      'setrlimit RLIMIT_NOFILE',
      'default_ulimits',
    ],
    ['tun closed', { tun: 'denied' }, '/dev/net/tun cannot be opened', 'chmod 0666 /dev/net/tun'],
    ['tun absent', { tun: 'missing' }, '/dev/net/tun is not there', 'modprobe tun'],
    ['no user namespaces', { maxUserNamespaces: 0 }, 'user namespaces are switched off', 'sysctl'],
    [
      'ordinary user',
      { uid: 1_000, unprivilegedUserNamespaces: false },
      'may not make user namespaces',
      'sysctl',
    ],
    ['AppArmor', { uid: 1_000, appArmorRestrictsUserNamespaces: true }, 'AppArmor', 'sysctl'],
    ['no subuid', { uid: 1_000, subordinateIds: false }, '/etc/subuid', 'usermod'],
    ['Docker denied', { docker: { socket: '/d', state: 'denied' } }, 'may not be opened', 'usermod'],
    ['Docker silent', { docker: { socket: '/d', state: 'silent' } }, 'nobody answers', 'dockerd'],
    [
      'state on NFS',
      { directories: [{ name: 'state', path: '/s', writable: true, freeBytes: 1e12, kind: 'network' }] },
      'network file system',
      'SKYCAP_STATE_DIRECTORY',
    ],
    [
      'secrets on disk',
      { directories: [{ name: 'runtime', path: '/r', writable: true, freeBytes: 1e12, kind: 'local' }] },
      'not in memory',
      'tmpfs',
    ],
    [
      'read-only',
      { directories: [{ name: 'store', path: '/s', writable: false, freeBytes: 1e12, kind: 'local' }] },
      'not writable',
      'chown',
    ],
    [
      'almost full',
      { directories: [{ name: 'store', path: '/s', writable: true, freeBytes: 5e8, kind: 'local' }] },
      '500 MB left',
      'image prune',
    ],
  ])('%s', (_name, change, message, fix) => {
    const wrong = diagnose({ ...healthy, ...change }).filter(({ status }) => status !== 'ok');
    expect(wrong).toContainEqual(
      expect.objectContaining({
        message: expect.stringContaining(message),
        fix: expect.stringContaining(fix),
      }),
    );
  });
});

test.each([
  [['debian'], 'apt-get install iproute2'],
  [['rhel', 'fedora'], 'dnf install iproute'],
  [['alpine'], 'apk add iproute'],
])('the install line fits the distribution: %j', (distribution, line) => {
  expect(installLine('ip', distribution)).toBe(line);
});

test.each([
  ['cgroup2 /sys/fs/cgroup cgroup2 rw 0 0', 'unified'],
  ['a /sys/fs/cgroup/pids cgroup rw 0 0\nb /sys/fs/cgroup/unified cgroup2 rw 0 0', 'mixed'],
  ['a /sys/fs/cgroup/pids cgroup rw 0 0', 'legacy'],
  ['proc /proc proc rw 0 0', 'none'],
])('cgroup layout of %j', (mounts, kind) => {
  expect(cgroupsOf(mounts)).toBe(kind);
});

test('limits are the hard ones', () => {
  const text =
    'Max processes             4096                 unlimited            processes\nMax open files            1024                 20000                files\n';
  expect(limitsOf(text)).toEqual({ openFiles: 20_000, processes: Number.POSITIVE_INFINITY });
});
