import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CaseContext } from '../contract/context.ts';
import type { Program } from '../contract/fixture.ts';
import type { ContainerRun } from '../port.ts';
import { crunFixture } from './fixture.contract.ts';
import { seccompProgram } from './seccomp-program.ts';

function shell(script: string): Program {
  return { image: 'shell', argv: ['sh', '-c', script], fake: () => 0 };
}

/** What a container on crun can see and reach (docs/security.md, "Confinement"). */
describe('confinement on crun', () => {
  let fixture: Awaited<ReturnType<typeof crunFixture>>;
  beforeAll(async () => {
    fixture = await crunFixture();
  }, 120_000);
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
  });

  async function said(script: string, more: Partial<ContainerRun> = {}): Promise<string> {
    await using context = new CaseContext(fixture);
    const session = await context.session({ network: more.network === 'default' });
    const ran = await context.run(session, shell(script), more);
    return `${ran.stdout}${ran.stderr}`;
  }

  it('has a filter, no new privileges, Docker’s capabilities less NET_RAW, and the fixed map', async () => {
    const status = await said('cat /proc/self/status /proc/self/uid_map /proc/self/gid_map');
    expect(status).toMatch(/^Seccomp:\t2$/m);
    expect(status).toMatch(/^Seccomp_filters:\t1$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    // CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP
    expect(status).toMatch(/^CapEff:\t00000000a80405fb$/m);
    expect(status).toMatch(/^CapBnd:\t00000000a80405fb$/m);
    expect(status.match(/^ +0 1073741824 1073741824$/gm)).toHaveLength(2);
  });

  it('has its filter as a search tree', async () => {
    await said('true');
    const folder = join(fixture.directories.state, 'seccomp');
    const [kept = ''] = readdirSync(folder);
    const size = statSync(join(folder, kept)).size;
    expect(size).toBeGreaterThan(8 * 100);
    // libseccomp writes more than one instruction for each of some 350 system calls, and does so for each architecture.
    expect(size).toBeLessThan(8 * 500);
  });

  it.each(['', '00', '2000000000000000'])(
    'makes its filter anew where %j is left of the kept one',
    async (left) => {
      const directory = mkdtempSync(join(tmpdir(), 'skycap-filter-'));
      try {
        const runtime = execFileSync('sh', ['-c', 'command -v crun'], { encoding: 'utf8' }).trim();
        const signal = new AbortController().signal;
        const options = { runtime, directory, initProgram: '/bin/true', signal };
        const program = await seccompProgram(options);
        const [kept = ''] = readdirSync(directory);
        writeFileSync(join(directory, kept), Buffer.from(left, 'hex'));
        expect(await seccompProgram(options)).toBe(program);
        expect(readFileSync(join(directory, kept)).toString('base64')).toBe(program);
      } finally {
        rmSync(directory, { recursive: true, force: true });
      }
    },
  );

  it('gives an ordinary user no capabilities', async () => {
    expect(await said('grep CapEff /proc/self/status', { user: '1000' })).toBe('CapEff:\t0000000000000000\n');
  });

  it('refuses mounts, namespaces, keys and the kernel log', async () => {
    expect(
      await said('mount -t tmpfs x /mnt; unshare -r true; unshare -m true; dmesg | head -1; true'),
    ).toMatch(/(?:.*(?:not permitted|denied|must be|No such).*\n){3}/i);
  });

  it('masks paths and mounts what is writable nosuid and nodev', async () => {
    const mounts = await said('cat /proc/mounts', {
      volumes: [{ name: 'v', path: '/var/v', scope: 'run' }],
      home: 'shared',
      files: [{ path: '/etc/own', content: Buffer.from('x'), mode: 0o600, sensitive: true, readOnly: false }],
    });
    for (const path of ['/cnab/app', '/cnab/app/outputs', '/root', '/tmp', '/var/v', '/etc/own']) {
      expect(mounts).toMatch(new RegExp(`^\\S+ ${path} \\S+ rw,\\S*nosuid,nodev`, 'm'));
    }
    expect(mounts).toMatch(/ \/proc\/sys proc ro,/);
    expect(await said('cat /proc/kcore 2>/dev/null | head -c 1 | wc -c; cat /proc/keys | wc -c')).toBe(
      '0\n0\n',
    );
    expect(await said('echo 1 >/proc/sys/kernel/panic')).toMatch(/read-only/i);
  });

  it('cannot read what only root of the host may, nor see its processes', async () => {
    expect(
      await said('cat /proc/1/cmdline | tr "\\0" " " | cut -c1-10; ls /proc | grep -c "^[0-9]*$"'),
    ).toMatch(/^\/dev\/\.init\n[3-6]\n$/);
    expect(await said('ls /sys/fs/cgroup 2>/dev/null | wc -l')).toMatch(/^\d+\n$/);
  });

  it('runs a setuid program without its owner’s rights', async () => {
    expect(
      await said('mkdir s && cp /bin/busybox s/busybox && chmod 4755 s/busybox && ./s/busybox id -u', {
        user: '1000',
      }),
    ).toBe('1000\n');
  });

  it('does not reach the host’s loopback, by neither way, nor the metadata address', async () => {
    const server = createServer((socket) => socket.end('reached the host'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    try {
      for (const network of ['none', 'default'] as const) {
        for (const address of ['127.0.0.1', '10.0.2.2']) {
          expect(await said(`nc -w 2 ${address} ${port} </dev/null; true`, { network })).not.toContain(
            'reached',
          );
        }
      }
      // The twin: the same server, from here.
      const { connect } = await import('node:net');
      const text = await new Promise<string>((resolve, reject) => {
        const socket = connect(port, '127.0.0.1');
        socket.on('data', (data) => resolve(String(data)));
        socket.on('error', reject);
      });
      expect(text).toBe('reached the host');
    } finally {
      server.close();
    }
    const route = await said('ip route; nc -w 3 169.254.169.254 80 </dev/null; true', { network: 'default' });
    expect(route).toContain('blackhole 169.254.0.0/16');
    // At once and by the kernel, not by silence: slirp4netns would forward it.
    expect(route).toMatch(/invalid argument|unreachable/i);
  });

  it('does not share abstract sockets with the host', async () => {
    const server = createServer();
    const name = `skycap-confinement-${process.pid}`;
    await new Promise<void>((resolve) => server.listen(`\0${name}`, resolve));
    try {
      for (const network of ['none', 'default'] as const) {
        expect(await said(`grep -c ${name} /proc/net/unix`, { network })).toBe('0\n');
      }
    } finally {
      server.close();
    }
  });

  it('shares neither processes nor IPC between containers of one session', async () => {
    await using context = new CaseContext(fixture);
    const session = await context.session();
    const other = context.start(session, shell('echo ready; sleep 304'));
    await other.said('ready');
    const ran = await context.run(session, shell('ps | grep -c "[s]leep 304"'));
    expect(ran.stdout).toBe('0\n');
    other.kill();
    await other.result;
  });

  it('keeps output of a sensitive container in private files of the tmpfs, and nothing after release', async () => {
    const { readdirSync, statSync } = await import('node:fs');
    const { directories } = fixture as Awaited<ReturnType<typeof crunFixture>>;
    await using context = new CaseContext(fixture);
    const session = await context.session();
    const ran = await context.run(session, shell('echo hush'), { sensitive: true });
    const file = `${directories.runtime}/${session.runId}/c/${ran.containerId}/stdout`;
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await session.release(ran.containerId, { keep: false });
    await session.close({ keepWorkspace: false });
    expect(readdirSync(directories.runtime)).toEqual([]);
  });

  it('moves sensitive output that is too large for the tmpfs to a private file, without a gap', async () => {
    await using context = new CaseContext(fixture);
    const session = await context.session();
    const lines = 6_000_000;
    const ran = await context.run(session, shell(`seq ${lines}`), { sensitive: true });
    let expected = 0;
    for (let n = 1; n <= lines; n += 1) expected += String(n).length + 1;
    expect(ran.stdout.length).toBe(expected);
    expect(ran.stdout.endsWith(`\n${lines}\n`)).toBe(true);
    expect(context.notices.join()).toContain('private file on disk');
    const again = await context.attach(session, ran.containerId).result;
    expect(again.stdout === ran.stdout).toBe(true);
  });
});
