import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeGate } from '../../src/testkit/gate.ts';
import { enginesToTest } from '../support/engines.ts';
import { fifosRead } from '../support/fifos.ts';
import { printed } from '../support/printed.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

/** What no process of this host but ours has in its command line. */
const token = `promise-${process.pid}-${Date.now() % 1_000_000}`;

describe.each(enginesToTest('oci-runtime', 'docker'))('confinement on %s', (engine) => {
  const isDocker = engine === 'docker';
  const abstractName = `${token}-${engine}`;
  const gate = makeGate();
  let world: World;
  let tools: string;
  let server: Server;
  let abstract: Server;
  let cwd: string;
  let seen: Ran;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('tools:1');
    // A server that steps must not reach, on the host's loopback, and a socket without a file.
    server = createServer((socket) => socket.end('reached the host'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    abstract = createServer();
    await new Promise<void>((resolve) => abstract.listen(`\0${abstractName}`, resolve));
    writeFileSync(join(world.directory, 'only-on-the-host'), 'of the host');
    cwd = world.bundle({
      'porter.yaml': confined({
        tools,
        linked: await world.image('linked:1', {
          busybox: true,
          files: { 'srv/data': { type: 'symlink', linkPath: '/etc' } },
        }),
        port: (server.address() as AddressInfo).port,
        abstractName,
        wait: gate.wait,
        hostFile: join(world.directory, 'only-on-the-host'),
      }),
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    seen = expectCode(await act('install', '--allow-host-network'), 0);
  });
  afterAll(async () => {
    server.close();
    abstract.close();
    await world[Symbol.asyncDispose]();
  });

  async function act(action: string, ...more: readonly string[]): Promise<Ran> {
    const verb = action === 'install' ? ['install'] : ['invoke', '--action', action];
    return await world.skycap([...verb, '--progress', 'json', ...more], { cwd });
  }

  describe('what steps see', () => {
    const lines = (step: string): readonly string[] => printed(seen, step).split('\n');

    it('S10 is a user namespace with one fixed map outside of every subordinate range', () => {
      for (const step of ['root', 'user']) {
        const maps = lines(step).filter((line) => /^( +\d+){3}$/.test(line));
        // Docker's gap.
        const map = isDocker ? [0, 0, 4_294_967_295] : [0, 2 ** 30, 2 ** 30];
        expect(maps.map((line) => line.trim().split(/ +/).map(Number))).toEqual([map, map]);
      }
      for (const file of ['/etc/subuid', '/etc/subgid']) {
        for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
          const [, start, count] = line.split(':').map(Number);
          expect((start as number) + (count as number)).toBeLessThanOrEqual(2 ** 30);
        }
      }
    });

    it('S11 is no new privileges, Docker’s capabilities less NET_RAW, a filter and masked paths', () => {
      expect(lines('root')).toEqual(
        expect.arrayContaining([
          'Seccomp:\t2',
          'NoNewPrivs:\t1',
          'CapEff:\t00000000a80405fb',
          'CapBnd:\t00000000a80405fb',
          // In a user namespace much of this could not be read or written anyway.
          expect.stringMatching(/^\/proc\/keys is mounted/),
          '/proc/sys is mounted ro',
          '/proc/bus is mounted ro',
          'kcore has 0 bytes',
          'keys has 0 bytes',
          'panic cannot be written',
          'mount is refused',
          'chroot works',
        ]),
      );
      // A setuid program of root's gives an ordinary user nothing.
      expect(lines('user')).toEqual(
        expect.arrayContaining(['CapEff:\t0000000000000000', 'by a setuid program: 1000']),
      );
    });

    it('S14 is neither the loopback nor an abstract socket of the host', async () => {
      for (const step of ['root', 'networked']) {
        expect(printed(seen, step)).not.toContain('reached the host');
        expect(lines(step)).toEqual(expect.arrayContaining(['not 127.0.0.1', 'abstract sockets: 0']));
      }
      // The twins: the same questions where they are answered.
      expect(await answer((server.address() as AddressInfo).port)).toBe('reached the host');
      expect(printed(seen, 'consented')).toContain('reached the host');
      expect(lines('consented')).toContain('abstract sockets: 1');
    });
  });

  it('S12 keeps each limit, as exceeding it shows', async () => {
    const ran = expectCode(await act('limits'), 0);
    expect(printed(ran, 'pids')).toContain('fork is refused');
    expect(printed(ran, 'no-limit')).toContain('40 started');
    expect(
      ran.events.find((event) => event.type === 'step.finished' && event.step === 'memory'),
    ).toMatchObject({
      exitCode: 137,
    });
    expect(printed(ran, 'no-limit')).toContain('200 MiB held');
    const limited = spent(printed(ran, 'cpus'));
    expect(limited.cpu / limited.wall).toBeLessThan(0.1);
    // The same work without a limit. How much of a processor it gets is the machine's affair.
    expect(spent(printed(ran, 'no-limit')).cpu).toBeGreaterThan(0);
  });

  it('S13 ends the whole group of a step that ended, ran out of time or was cancelled', async () => {
    const running = world.start(['invoke', '--action', 'groups', '--progress', 'json'], { cwd });
    try {
      // The step after those that left children, and whether one of these went on after its step had ended.
      const said = (when: string) => running.said(`looking ${when}`).then(() => when);
      const all = ['in time', 'too late'].map((when) => said(when).catch(() => 'never'));
      expect(await Promise.race(all)).toBe('in time');
      expect(processesWith(`${token}-left`)).toEqual([]);
      // It is said when the child was made, which may not have become its program yet.
      await expect.poll(() => processesWith(`${token}-twin`)).not.toEqual([]);
      running.process.kill('SIGINT');
      expectCode(await running.ended, 130);
      expect(processesWith(token)).toEqual([]);
    } finally {
      running.process.kill('SIGKILL');
    }
  });

  it('S16 refuses volumes over the folders of Skycap and of the image, by whatever name', async () => {
    for (const path of [
      '/cnab',
      '/cnab/app/x',
      '/etc',
      '/etc/ssl/',
      '/usr/local/bin',
      '/usr/../etc',
      '/./etc',
      '/',
    ]) {
      const made = world.bundle({
        'porter.yaml': JSON.stringify({
          name: 'cover',
          version: '1.0.0',
          invocationImages: [{ name: 'tools', image: tools, volumes: [{ name: 'v', path }] }],
          install: [step('one', 'true', 'tools')],
          uninstall: [step('away', 'true', 'tools')],
        }),
      });
      const lint = await world.skycap(['lint'], { cwd: made });
      expect(`${path}: ${lint.code} ${/volume-path/.test(lint.stdout + lint.stderr)}`).toBe(
        `${path}: 10 true`,
      );
    }
    // The image's own link leads there.
    const ran = await act('covers');
    expect(ran.code).toBe(49);
    expect(ran.stderr).toContain('ENGINE_VOLUME_REFUSED');
    expect(printed(ran, 'covers')).toBe('');
  });

  it('S25 reads of what steps leave only regular files with one link, without following or waiting', async () => {
    const running = world.start(['invoke', '--action', 'leaves', '--progress', 'json'], { cwd });
    const fifos = join(
      world.env.XDG_DATA_HOME as string,
      'skycap/state/engine/runs/*/{outputs/*/fifo,*/waits}',
    );
    expect(await fifosRead(fifos, running.ended)).toEqual([]);
    const left = expectCode(await running.ended, 0);
    const listed = expectCode(await world.skycap(['output', 'list', '-i', 'confined', '-o', 'json']), 0);
    const outputs = Object.fromEntries(
      listed.json<{ name: string; value: string }[]>().map(({ name, value }) => [name, value]),
    );
    expect(outputs).toEqual({
      ...Object.fromEntries(trapOutputs.map(({ name }) => [name, 'unread'])),
      good: 'of the step',
      late: 'first',
    });
    // Nothing on the way is followed either, and the run says what it did not read.
    if (!isDocker) {
      const said = left.events
        .filter((event) => event.type === 'engine.notice')
        .map((event) => event.message);
      expect(said).toContain(
        '/var/out/folder/only-on-the-host is reached through the symbolic link /var/out/folder and was left out',
      );
    }

    const large = await act('sparse');
    expect(large.code).not.toBe(0);
    expect(large.stderr).toContain('ENGINE_OUTPUT_TOO_LARGE');
  });

  it('S26 leaves nothing of a killed run once the next command has run', async () => {
    const killed = world.start(['invoke', '--action', 'slow', '--progress', 'json'], { cwd });
    await killed.said('"begun');
    killed.process.kill('SIGKILL');
    const first = runIdOf(await killed.ended);
    expect(leftovers(world, first)).not.toEqual([]);

    const going = act('slow');
    // The step of the killed run, then its own.
    await gate.open();
    await gate.open();
    const next = expectCode(await going, 0);

    expect(printed(next, 'slow')).toContain('ended');
    expect([...leftovers(world, first), ...leftovers(world, runIdOf(next))]).toEqual([]);
  });

  it('S17 names what the engine does not keep in the plan and in doctor', async () => {
    const args = ['install', 'x', '--dry-run', '--allow-host-network=consented'];
    const plan = expectCode(await world.skycap(args, { cwd }), 0).stdout;
    const doctor = (await world.skycap(['doctor'])).stdout;
    const gaps = isDocker
      ? ['no user namespace of our own', 'metadata addresses can be reached']
      : ['a privileged step has all capabilities inside its user namespace'];
    for (const gap of gaps) {
      expect(plan).toContain(gap);
      expect(doctor).toContain(gap);
    }
  });
});

describe.each(enginesToTest('oci-runtime'))('a host that lacks something, on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('tools:1');
    const image = (name: string, more: object = {}) => ({ name, image: tools, network: 'none', ...more });
    cwd = world.bundle({
      'porter.yaml': JSON.stringify({
        name: 'lacks',
        version: '1.0.0',
        invocationImages: [
          image('plain'),
          image('networked', { network: 'default' }),
          image('pids', { resources: { pids: 20 } }),
        ],
        install: [step('one', 'echo it ran')],
        upgrade: [step('again', 'echo it ran')],
        metadata: [step('asks', 'nc -w 2 169.254.169.254 8099 </dev/null || echo not reached', 'networked')],
        limited: [step('limited', 'echo it ran', 'pids')],
        uninstall: [step('away', 'true')],
      }),
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(await world.skycap(['install'], { cwd }), 0);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** The program in namespaces of its own, where a shell has changed something before. */
  async function where(
    setUp: string,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Promise<Ran> {
    return await world.start(args, {
      cwd,
      env,
      within: [
        'unshare',
        '--mount',
        '--net',
        '--propagation',
        'private',
        'sh',
        '-c',
        `${setUp}\nexec "$@"`,
        'sh',
      ],
    }).ended;
  }

  it('S14 leaves link-local metadata addresses unreachable where they are the host’s own', async () => {
    const serve = `require('node:net').createServer((s) => s.end('reached the metadata\\n')).listen(8099)`;
    const ran = await where(
      `ip link set lo up && ip addr add 169.254.169.254/32 dev lo
"${process.execPath}" -e "${serve}" & server=$!
until /bin/busybox nc 169.254.169.254 8099 </dev/null >&2; do :; done
"$@"; code=$?; kill $server; exit $code`,
      ['invoke', '--action', 'metadata', '--progress', 'json'],
    );
    expectCode(ran, 0);
    // The twin's answer, from outside of the container.
    expect(ran.stderr).toMatch(/^reached the metadata$/m);
    expect(printed(ran, 'asks')).toContain('not reached');
    expect(printed(ran, 'asks')).not.toContain('reached the metadata');
  });

  it('S15 refuses a step that wants a network where none can be made, and no other', async () => {
    const without = 'mount --bind /dev/null /usr/bin/slirp4netns';
    const ran = await where(without, ['invoke', '--action', 'metadata', '--progress', 'json']);
    expectCode(ran, 44);
    expect(ran.stderr).toContain('ENGINE_NETWORK_UNAVAILABLE');
    expect(ran.stderr).toContain('apt-get install slirp4netns iproute2');
    expect(ran.events.some((event) => event.type === 'step.running')).toBe(false);

    const other = expectCode(await where(without, ['upgrade', '--progress', 'json']), 0);
    expect(other.stderr).toContain('apt-get install slirp4netns');
  });

  it('S12 refuses a step with a limit that this host cannot keep', async () => {
    const ran = await where('mount -t tmpfs none /sys/fs/cgroup', [
      'invoke',
      '--action',
      'limited',
      '--progress',
      'json',
    ]);
    expectCode(ran, 45);
    expect(ran.stderr).toContain('ENGINE_LIMIT_UNSUPPORTED');
    expect(printed(ran, 'limited')).toBe('');
  });

  it('says of each engine why it does not fit, with the install line', async () => {
    const none = await where('mount --bind /dev/null /usr/bin/crun', ['upgrade'], {
      SKYCAP_ENGINE: '',
      DOCKER_HOST: 'unix:///nowhere/docker.sock',
    });
    expectCode(none, 40);
    expect(none.stderr).toMatch(
      /ENGINE_NONE.*crun: crun is not installed; docker: .*\/nowhere\/docker\.sock/,
    );
    expect(none.stderr).toContain('for crun: apt-get install crun slirp4netns iproute2; or for docker: ');

    const other = await where('', ['upgrade'], { SKYCAP_ENGINE: 'podmann' });
    expectCode(other, 40);
    expect(other.stderr).toMatch(/there is no engine "podmann"[\s\S]*use /);
  });
});

interface Parts {
  readonly tools: string;
  /** An image whose /srv/data is a link to /etc. */
  readonly linked: string;
  readonly port: number;
  readonly abstractName: string;
  /** A line of a script that waits for the test. */
  readonly wait: string;
  readonly hostFile: string;
}

/** Outputs that must stay at their default, and how a step makes them dangerous to read. */
const trapOutputs = [
  { name: 'link', make: 'ln -s "$HOST_FILE" outputs/link' },
  { name: 'fifo', make: 'mkfifo outputs/fifo' },
  { name: 'hard', make: 'echo x >outputs/other; ln outputs/other outputs/hard' },
  // Refused in a user namespace already.
  { name: 'device', make: 'mknod outputs/device c 1 5 || true' },
  { name: 'workspace-link', path: 'leads', make: 'ln -s "$HOST_FILE" leads' },
  { name: 'workspace-fifo', path: 'waits', make: 'mkfifo waits' },
  { name: 'through', path: 'folder/only-on-the-host', make: 'ln -s "${HOST_FILE%/*}" folder' },
  {
    name: 'outside',
    path: '/var/out/folder/only-on-the-host',
    make: 'mkdir -p /var/out; ln -s "${HOST_FILE%/*}" /var/out/folder',
  },
];

/** Left by a step that ends: detached twice, and deaf to TERM. */
const leaveChildren = `cat >left.sh <<'END'
trap "" TERM HUP
if [ "$3" = first ]; then setsid sh left.sh "$1" "$2" second & fi
echo >"/tmp/$3"
while kill -0 "$2" 2>/dev/null; do sleep 0.1; done
i=0; while [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
echo >survived
echo looking too late
END
rm -f /tmp/first /tmp/second
setsid sh left.sh ${token}-left $$ first &
while [ ! -e /tmp/first ] || [ ! -e /tmp/second ]; do :; done`;

function step(id: string, run: string, name = 'plain'): Record<string, unknown> {
  return { id, description: id, invoke: { name, action: { run } } };
}

function confined({ tools, linked, port, abstractName, wait, hostFile }: Parts): string {
  const image = (name: string, more: object = {}) => ({ name, image: tools, network: 'none', ...more });
  const confinement = 'cat /proc/self/uid_map /proc/self/gid_map; cat /proc/self/status';
  const reach = `for address in 127.0.0.1 10.0.2.2 172.17.0.1; do
  nc -w 1 $address ${port} </dev/null || echo "not $address"
done
echo "abstract sockets: $(grep -c ${abstractName} /proc/net/unix)"`;
  const fork = `(i=0; while [ $i -lt 40 ]; do sleep 30 & i=$((i+1)); done; echo "$i started") 2>&1 || echo fork is refused`;
  const hold = 'dd if=/dev/zero of=/dev/null bs=200M count=1';
  const compute = `start=$(cut -d' ' -f1 /proc/uptime); i=0
while [ $i -lt 60000 ]; do i=$((i+1)); done
times >/tmp/times; echo "cpu $(head -n 1 /tmp/times) wall $start $(cut -d' ' -f1 /proc/uptime)"`;
  const ignore = { ignoreError: { all: true } };
  return JSON.stringify({
    name: 'confined',
    version: '1.0.0',
    invocationImages: [
      image('plain'),
      image('networked', { network: 'default' }),
      image('consented', { network: 'host' }),
      image('user', { user: '1000' }),
      image('pids', { resources: { pids: 20 } }),
      image('memory', { resources: { memory: '64Mi' } }),
      image('cpus', { resources: { cpus: '0.05' } }),
      { ...image('linked', { volumes: [{ name: 'v', path: '/srv/data' }] }), image: linked },
    ],
    outputs: [
      ...[...trapOutputs, { name: 'good', path: undefined }, { name: 'late', path: undefined }].map(
        ({ name, path }) => ({
          name,
          type: 'string',
          sensitive: false,
          default: 'unread',
          applyTo: ['leaves'],
          ...(path === undefined ? {} : { path }),
        }),
      ),
    ],
    install: [
      step(
        'root',
        `${confinement}
echo "kcore has $(cat /proc/kcore 2>/dev/null | head -c 1 | wc -c) bytes"
echo "keys has $(cat /proc/keys 2>/dev/null | wc -c) bytes"
sed -nE 's|^[^ ]+ (/proc/[^ ]+) [^ ]+ (r[ow]),.*|\\1 is mounted \\2|p' /proc/mounts
if (echo 1 >/proc/sys/kernel/panic) 2>/dev/null; then echo panic is written; else echo panic cannot be written; fi
if mount -t tmpfs none /mnt 2>/dev/null; then echo mount works; else echo mount is refused; fi
if chroot / true; then echo chroot works; fi
${reach}`,
      ),
      step(
        'user',
        `${confinement}
cp /bin/busybox /cnab/app/busybox
chmod 4755 /cnab/app/busybox
echo "by a setuid program: $(/cnab/app/busybox id -u)"`,
        'user',
      ),
      step('networked', reach, 'networked'),
      step('consented', reach, 'consented'),
    ],
    limits: [
      step('pids', fork, 'pids'),
      {
        id: 'memory',
        description: 'memory',
        invoke: { name: 'memory', action: { command: hold.split(' ') }, ...ignore },
      },
      step('cpus', compute, 'cpus'),
      step('no-limit', `${fork}\n${hold} && echo "200 MiB held"\n${compute}`),
    ],
    groups: [
      step('ends', leaveChildren),
      {
        id: 'late',
        description: 'late',
        timeout: '1s',
        invoke: { name: 'plain', action: { run: `${leaveChildren}\nsleep 300` }, ...ignore },
      },
      step(
        'looks',
        `sh -c 'sleep 300; true' ${token}-twin &
if [ -e survived ]; then echo looking too late; else echo looking in time; fi
wait`,
      ),
    ],
    covers: [step('covers', 'cat /etc/passwd', 'linked')],
    leaves: [
      step(
        'leaves',
        `HOST_FILE=${hostFile}
${trapOutputs.map(({ make }) => make).join('\n')}
printf 'of the step' >outputs/good
printf first >outputs/late
setsid sh -c 'trap "" TERM HUP; echo >/tmp/up; sleep 60; printf second >/cnab/app/outputs/late' &
while [ ! -e /tmp/up ]; do :; done`,
      ),
    ],
    sparse: [step('sparse', 'truncate -s 300M outputs/huge')],
    slow: [step('slow', `echo begun; ${wait}; echo ended`, 'networked')],
    uninstall: [step('away', 'true')],
  });
}

/** Processor time and time, in seconds. */
function spent(text: string): { readonly cpu: number; readonly wall: number } {
  const [, minutes, seconds, start, end] =
    /cpu (\d+)m([\d.]+)s .* wall ([\d.]+) ([\d.]+)/.exec(text)?.map(Number) ?? [];
  return { cpu: (minutes as number) * 60 + (seconds as number), wall: (end as number) - (start as number) };
}

function runIdOf(ran: Ran): string {
  return String(ran.events.find((event) => event.type === 'run.started')?.runId);
}

function answer(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('data', (data) => resolve(String(data)));
    socket.on('error', reject);
  });
}

/** Command lines of this host's processes, those in containers too, that have a text. */
function processesWith(text: string): readonly string[] {
  return procFiles('cmdline')
    .map((line) => line.replaceAll('\0', ' '))
    .filter((line) => line.includes(text));
}

/** Processes, mounts in any namespace, runtime files, and what a daemon has of a run. */
function leftovers(world: World, runId: string): readonly string[] {
  const of = (text: string): boolean => text.toLowerCase().includes(runId.toLowerCase());
  const docker = (...args: string[]): readonly string[] =>
    engineHas('docker')
      ? execFileSync('docker', [...args, '--filter', `label=dev.skycap.run=${runId}`], { encoding: 'utf8' })
          .split('\n')
          .filter(Boolean)
      : [];
  const runtime = world.env.XDG_RUNTIME_DIR as string;
  return [
    ...procFiles('cmdline').filter(of),
    ...procFiles('mountinfo').flatMap((file) => file.split('\n').filter(of)),
    ...readdirSync(runtime, { recursive: true, encoding: 'utf8' }).filter(of),
    ...docker('ps', '-a', '-q'),
    ...docker('network', 'ls', '-q'),
    ...docker('volume', 'ls', '-q'),
  ];
}

function engineHas(program: string): boolean {
  return (process.env.PATH ?? '').split(':').some((folder) => existsSync(join(folder, program)));
}

function procFiles(name: string): readonly string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/${name}`, 'utf8');
      } catch {
        // It ended while we looked.
        return '';
      }
    });
}
