import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ContainerRun } from '../port.ts';
import { writeInside } from '../tree/scoped.ts';
import { ownedBind } from './config.ts';
import { readStatus } from './follow.ts';
import { holderScript } from './holder.sh.ts';
import { initBinaries, mountBinaries } from './init/binary.ts';
import type { RunLayout } from './layout.ts';
import { checkLayers } from './overlays.ts';
import { RootPoints } from './root-points.ts';
import { allowedCalls, seccompProfile } from './seccomp-profile.ts';
import { unprepared } from './unprepared.ts';
import { resolveUser } from './users.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'oci-runtime-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the seccomp profile', () => {
  it('allows none of the calls that load code, change mounts or namespaces, or read keys', () => {
    const refused = `acct add_key bpf delete_module finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter
      io_uring_register io_uring_setup kexec_file_load kexec_load keyctl lookup_dcookie mount mount_setattr move_mount
      move_pages nfsservctl open_by_handle_at open_tree perf_event_open pivot_root quotactl reboot request_key
      setns settimeofday clock_settime swapoff swapon syslog umount umount2 unshare userfaultfd vhangup`;
    const allowed = new Set(allowedCalls());
    expect(refused.split(/\s+/).filter((name) => allowed.has(name))).toEqual([]);
  });

  it('lets a C library fall back from clone3, and clone no namespaces', () => {
    const rules = seccompProfile('x64').syscalls;
    expect(rules.find((rule) => rule.names.includes('clone3'))).toMatchObject({
      action: 'SCMP_ACT_ERRNO',
      errnoRet: 38,
    });
    expect(
      rules.filter((rule) => rule.names.includes('clone')).every((rule) => rule.args !== undefined),
    ).toBe(true);
    expect(allowedCalls()).not.toContain('clone');
    expect(allowedCalls()).not.toContain('socket');
  });
});

describe('users of an image', () => {
  const passwd =
    'root:x:0:0::/root:/bin/sh\n# comment\nbroken\napp:x:1000:1001::/home/app:/bin/sh\nhuge:x:4294967295:0::/:\n';
  beforeEach(() => {
    mkdirSync(join(folder, 'etc'));
    writeFileSync(join(folder, 'etc/passwd'), passwd);
    writeFileSync(join(folder, 'etc/group'), 'root:x:0:\napp:x:1001:\nstaff:x:50:app,other\n');
  });

  it.each([
    ['', { uid: 0, gid: 0, home: '/root' }],
    ['app', { uid: 1000, gid: 1001, additionalGids: [50], home: '/home/app' }],
    ['1000', { uid: 1000, gid: 1001, additionalGids: [50] }],
    ['app:staff', { uid: 1000, gid: 50, additionalGids: [] }],
    ['4242', { uid: 4242, gid: 0, home: '/' }],
    ['4242:7', { uid: 4242, gid: 7 }],
  ])('%s', (user, expected) => expect(resolveUser(folder, user, 'image')).toMatchObject(expected));

  it.each(['nobody', 'app:nogroup', '1073741824', 'huge', '-1', '1e3'])('%s is unknown', (user) => {
    expect(() => resolveUser(folder, user, 'image')).toThrow(
      expect.objectContaining({ code: 'ENGINE_USER_UNKNOWN' }),
    );
  });
});

describe('an owned bind', () => {
  it('swaps owner and user and keeps all other ids of the map', () => {
    const mount = ownedBind('/s', '/d', {
      owner: { uid: 0, gid: 0 },
      user: { uid: 1000, gid: 0 },
      readOnly: false,
    });
    expect(mount.options.at(-1)).toBe(
      'idmap=uids=0-1073742824-1#1073741824-1073741824-1000#1073742825-1073742825-1073740823;gids=0-1073741824-1#1073741825-1073741825-1073741823',
    );
  });
});

describe('a status file', () => {
  it.each([
    ['3 exited\n', { exitCode: 3, cause: 'exited' }],
    ['137 timeout\n', { exitCode: 137, cause: 'timeout' }],
    ['3 exit', undefined],
    ['', undefined],
  ])('%j', (text, expected) => {
    writeFileSync(join(folder, 'status'), text);
    expect(readStatus(folder)).toEqual(expected);
  });
});

describe('the init program', () => {
  it.skipIf(process.arch !== 'x64')(
    'hands on exit codes and signals, and says why a command cannot be executed',
    () => {
      const init = join(folder, 'init');
      writeFileSync(init, Buffer.from(initBinaries['x64'] as string, 'base64'), { mode: 0o755 });
      const run = (script: string): string =>
        execFileSync('sh', ['-c', script, 'sh', init], { encoding: 'utf8' }).trim();
      expect(run('"$1" sh -c "exit 7" 3>/dev/null; echo $?')).toBe('7');
      expect(run('"$1" sh -c "kill -9 \\$\\$" 3>/dev/null; echo $?')).toBe('137');
      expect(run('cd /; "$1" no-such-program 3>&1; echo :$?')).toBe('s2:127');
      expect(run('"$1" /etc 3>&1; echo :$?')).toBe('s13:126');
      expect(run('"$1" sh -c "exit 0" 3>&1; echo :$?')).toBe('s:0');
    },
  );

  it('is an ELF program for both architectures, as is the one that mounts', () => {
    for (const programs of [initBinaries, mountBinaries]) {
      const machine = (arch: string): number =>
        Buffer.from(programs[arch] as string, 'base64').readUInt16LE(18);
      expect([machine('x64'), machine('arm64')]).toEqual([62, 183]);
    }
  });
});

describe('the holder', () => {
  it('is a shell program without errors of syntax', () => {
    writeFileSync(join(folder, 'holder.sh'), holderScript);
    expect(execFileSync('sh', ['-n', join(folder, 'holder.sh')], { encoding: 'utf8' })).toBe('');
  });
});

describe('mount points made ahead', () => {
  const root = (name: string) => ({ name, path: name, reachable: join(folder, name) });
  const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const point = (path: string) => ({ path, kind: 'file', owner, parentOwner: owner }) as const;

  it('are taken away where a container does not need them, and a root that is gone spoils nothing', () => {
    mkdirSync(join(folder, 'one'));
    mkdirSync(join(folder, 'two'));
    const points = new RootPoints();
    points.with('tools', root('one'), (make) => {
      for (const path of ['/cnab/a/b', '/cnab/c', '/etc/d']) make(point(path));
    });
    const two = root('two');
    points.makeAhead('tools', two);
    expect(readdirSync(join(folder, 'two'), { recursive: true }).sort()).toEqual([
      'cnab',
      'cnab/a',
      'cnab/a/b',
      'cnab/c',
      'etc',
      'etc/d',
    ]);
    points.with('tools', two, (make) => make(point('/cnab/c')));
    expect(readdirSync(join(folder, 'two'), { recursive: true }).sort()).toEqual(['cnab', 'cnab/c']);
    expect(() => points.makeAhead('tools', root('gone'))).not.toThrow();
  });
});

describe('what cannot be made ready', () => {
  it('is an image of more layers than the kernel mounts', () => {
    expect(() => checkLayers('tools', 500)).not.toThrow();
    expect(() => checkLayers('tools', 501)).toThrowError(
      expect.objectContaining({
        code: 'ENGINE_START_FAILED',
        message: 'image tools has 501 layers, and overlayfs takes 500 at most',
        hint: expect.stringContaining('skycap image flatten'),
      }),
    );
  });

  const run = { containerId: 'c', image: 'tools' } as ContainerRun;
  const layout = { control: '/proc', disk: '/dev/shm' } as RunLayout;
  const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const file = { content: Buffer.from('x'), mode: 0o644, owner, parentOwner: owner };

  it('is a fault of an image with a file in the place of a folder, which is named', () => {
    writeFileSync(join(folder, 'etc'), 'no folder');
    let fault: unknown;
    try {
      writeInside(folder, '/etc/hosts', file);
    } catch (cause) {
      fault = unprepared(cause, run, layout);
    }
    expect(fault).toMatchObject({
      code: 'ENGINE_START_FAILED',
      message: 'image tools cannot be made ready for a step: /etc is not a folder',
      hint: expect.stringContaining('/etc'),
    });
  });

  it('is a full disk, with the fuller of the two places, or what it was', () => {
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    expect(unprepared(full, run, layout)).toMatchObject({
      code: 'DISK_FULL',
      message: expect.stringContaining('/proc'),
    });
    const other = new TypeError('a fault of our own');
    expect(unprepared(other, run, layout)).toBe(other);
  });
});
