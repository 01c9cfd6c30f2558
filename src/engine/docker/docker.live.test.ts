import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type Digest,
  type ImageRunConfig,
  loadStore,
  type PinnedImage,
  type Store,
} from '../../oci/index.ts';
import { makeGate } from '../../testkit/gate.ts';
import { makeImage } from '../../testkit/images/index.ts';
import { packFiles, readAll, readArchive } from '../archive.ts';
import { plainRun } from '../contract/plain-run.ts';
import type { ContainerExit, ContainerRun, Session } from '../port.ts';
import { createDockerEngine, probeDocker } from './index.ts';
import { directoryItem, fileItem, gather, packItems } from './tar.ts';

const socketPath = process.env.SKYCAP_TEST_DOCKER_SOCKET ?? '/var/run/docker.sock';
const probe = await probeDocker(socketPath);
if (!probe.fits) {
  if (process.env.SKYCAP_REQUIRE_ENGINES === '1') throw new Error(`docker is not there: ${probe.reason}`);
  process.stderr.write(`NOT TESTED: docker (${probe.reason})\n`);
}

const blobs = new Map<string, Buffer>();
const store = {
  async *readBlob(digest: Digest, offset = 0): AsyncIterable<Uint8Array> {
    yield (blobs.get(digest) as Buffer).subarray(offset);
  },
  readSmall: async (digest: Digest): Promise<Uint8Array> => blobs.get(digest) as Buffer,
};

function keep(bytes: Buffer): Digest {
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}` as Digest;
  blobs.set(digest, bytes);
  return digest;
}

const BUSYBOX = readFileSync('/bin/busybox');
const NOBODY = { uid: 0, gid: 0 };

async function image(
  config: Partial<ImageRunConfig> = {},
  more: Record<string, string> = {},
): Promise<PinnedImage> {
  const file = (path: string, content: string | Buffer, mode = 0o644) =>
    fileItem(path, Buffer.from(content), { mode, owner: NOBODY });
  const layer = Buffer.concat(
    await gather(
      packItems([
        directoryItem('bin', 0o755, NOBODY),
        file('bin/busybox', BUSYBOX, 0o755),
        file('bin/sh', BUSYBOX, 0o755),
        directoryItem('etc', 0o755, NOBODY),
        file('etc/passwd', 'root:x:0:0::/root:/bin/sh\napp:x:1234:1235::/home/app:/bin/sh\n'),
        file('etc/group', 'root:x:0:\ntools:x:77:app\n'),
        directoryItem('tmp', 0o1777, NOBODY),
        file('etc/plain', 'not a program'),
        ...Object.entries(more).map(([path, content]) => file(path, content)),
      ]),
    ),
  );
  const digest = keep(layer);
  const run: ImageRunConfig = {
    entrypoint: [],
    cmd: [],
    env: ['PATH=/bin', 'FROM_IMAGE=yes'],
    user: '',
    workingDir: '',
    labels: {},
    ...config,
  };
  const bytes = Buffer.from(
    JSON.stringify({
      architecture: 'amd64',
      os: 'linux',
      config: { Env: run.env, User: run.user, Labels: { 'dev.skycap.test': 'engine' } },
      rootfs: { type: 'layers', diff_ids: [digest] },
    }),
  );
  const configDigest = keep(bytes);
  return {
    reference: 'registry.test/tools:1',
    repository: 'registry.test/tools',
    digest: configDigest,
    manifestDigest: configDigest,
    configDigest,
    platform: { os: 'linux', architecture: 'amd64' },
    config: run,
    layers: [
      { digest, diffId: digest, size: layer.length, mediaType: 'application/vnd.oci.image.layer.v1.tar' },
    ],
    size: layer.length,
  };
}

interface Ended extends ContainerExit {
  readonly stdout: string;
  readonly stderr: string;
}

describe.runIf(probe.fits)('docker engine', () => {
  let folder: string;
  let memory: string;
  let engine: Awaited<ReturnType<typeof createDockerEngine>>;
  let runId: string;
  let session: Session;
  const notices: string[] = [];
  const operation = {
    signal: new AbortController().signal,
    emit: (event: { type: string; message?: string }) => void notices.push(event.message ?? event.type),
  };
  let images: Record<string, PinnedImage>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'skycap-docker-'));
    memory = await mkdtemp('/dev/shm/skycap-docker-');
    engine = await createDockerEngine({
      store: store as unknown as Store,
      archivesOnly: true,
      socketPath,
      runtimeDirectory: memory,
      workDirectory: folder,
      uid: process.getuid?.() ?? 0,
    });
    images = {
      tools: await image(),
      data: await image({}, { 'cnab/app/from-image': 'hello', 'opt/empty': '' }),
    };
  });
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
    await rm(memory, { recursive: true, force: true });
    for (const { configDigest } of Object.values(images ?? {}))
      execFileSync('docker', ['image', 'rm', '-f', configDigest], { stdio: 'ignore' });
  });
  beforeEach(async () => {
    runId = `test-${randomBytes(6).toString('hex')}`;
    session = await open(runId);
  });
  afterEach(async () => {
    await engine.sweep(runId, operation);
    await engine.removeVolumes(`of-${runId}`, operation);
    expect(left(runId)).toEqual([]);
  });

  const open = (id: string, more: { network?: boolean; workspaceOf?: string } = {}): Promise<Session> =>
    engine.open({ runId: id, installationId: `of-${id}`, images, network: false, ...more }, operation);

  let count = 0;
  function spec(script: string | readonly string[], more: Partial<ContainerRun> = {}): ContainerRun {
    count += 1;
    return {
      ...plainRun,
      containerId: `${runId}-${count}`,
      image: 'tools',
      argv: typeof script === 'string' ? ['sh', '-ec', `PATH=/bin; ${script}`] : script,
      env: { PATH: '/bin' },
      graceMs: 2000,
      ...more,
    };
  }

  async function ends(
    run: ContainerRun,
    more: {
      signal?: AbortSignal;
      kill?: AbortSignal;
      onOutput?: (text: string) => void;
      onStarted?: () => void;
    } = {},
  ): Promise<Ended> {
    const parts: Record<'stdout' | 'stderr', Uint8Array[]> = { stdout: [], stderr: [] };
    const never = new AbortController().signal;
    const exit = await session.run(run, {
      onOutput: (stream, chunk) => {
        parts[stream].push(chunk);
        more.onOutput?.(Buffer.from(chunk).toString());
      },
      onStarted: () => more.onStarted?.(),
      signal: more.signal ?? never,
      kill: more.kill ?? never,
    });
    return {
      ...exit,
      stdout: Buffer.concat(parts.stdout).toString('latin1'),
      stderr: Buffer.concat(parts.stderr).toString('latin1'),
    };
  }

  const bb = (applets: string): string =>
    applets
      .split(' ')
      .map((applet) => `${applet}() { busybox ${applet} "$@"; }`)
      .join('; ');

  function left(id: string): string[] {
    const ask = (...args: string[]): string[] =>
      execFileSync('docker', [...args, '--filter', `label=dev.skycap.run=${id}`], { encoding: 'utf8' })
        .split('\n')
        .filter((line) => line !== '');
    return [...ask('ps', '-aq'), ...ask('volume', 'ls', '-q'), ...ask('network', 'ls', '-q')];
  }

  it.each([0, 1, 2, 44, 126, 127, 137, 143, 255])('exit code %i is kept', async (code) => {
    expect(await ends(spec(`exit ${code}`))).toMatchObject({ exitCode: code, cause: 'exited', stderr: '' });
  });
  it('tells what could not be executed, and how a signal ended it', async () => {
    expect(await ends(spec(['nosuch']))).toMatchObject({
      exitCode: 127,
      cause: 'not-found',
      stdout: '',
      stderr: '',
    });
    expect(await ends(spec(['/etc/plain']))).toMatchObject({
      exitCode: 126,
      cause: 'not-executable',
      stderr: '',
    });
    expect(await ends(spec('kill -9 $$'))).toMatchObject({ exitCode: 137, cause: 'exited' });
    expect(await ends(spec('kill -TERM $$'))).toMatchObject({ exitCode: 143, cause: 'exited' });
  });
  it('gives both streams byte for byte, without a final newline and with bytes that are no text', async () => {
    const ended = await ends(spec(`printf 'a\\377\\000b'; printf 'err' >&2; printf 'end'`));
    expect(ended.stdout).toBe('a\xff\0bend');
    expect(ended.stderr).toBe('err');
    const big = await ends(spec(`${bb('head yes')}; yes 0123456789 | head -c 20000000; echo done >&2`));
    expect(big.stdout.length).toBe(20_000_000);
    expect(big.stderr).toBe('done\n');
  });
  it('ends with its first process, whatever a child holds open, and waits for one that closed its streams', async () => {
    expect((await ends(spec(`${bb('sleep')}; sleep 60 & exit 3`))).exitCode).toBe(3);
    expect((await ends(spec(`exec >&- 2>&-; busybox sleep 1; exit 4`))).exitCode).toBe(4);
  });
  it('has exactly the environment that was given', async () => {
    const ended = await ends(
      spec(['/bin/busybox', 'env'], { env: { A: '', B: ' x\ny ', C: '$(X)%0A$$', PATH: '/bin', HOME: '/' } }),
    );
    expect(
      ended.stdout
        .split('\n')
        .filter((line) => line !== '')
        .sort(),
    ).toEqual(['A=', 'B= x', 'y ', 'C=$(X)%0A$$', 'HOME=/', 'PATH=/bin'].sort());
  });
  it.each([
    ['', '0:0'],
    ['app', '1234:1235'],
    ['app:tools', '1234:77'],
    ['4321', '4321:0'],
    ['4321:99', '4321:99'],
  ])('user %j reads, writes and removes what others left', async (user, ids) => {
    await session.workspace.put(packFiles({ 'a/secret': { content: 'one', mode: 0o600 } }));
    await ends(spec('umask 077; busybox mkdir b; echo two > b/two', { user: '999:999' }));
    const ended = await ends(
      spec(
        'echo $(busybox id -u):$(busybox id -g); busybox cat a/secret b/two; busybox chmod 640 b/two; busybox rm -r a; echo three > outputs/three',
        { user },
      ),
    );
    expect(ended).toMatchObject({ exitCode: 0, stdout: `${ids}\nonetwo\n` });
    const names = (await session.workspace.snapshot()).map((entry) => entry.path);
    expect(names).toEqual(['b', 'b/two']);
  });
  it('refuses a user that the image does not have, and leaves nothing', async () => {
    await expect(ends(spec('true', { user: 'ghost' }))).rejects.toMatchObject({
      code: 'ENGINE_USER_UNKNOWN',
    });
    await expect(ends(spec('true', { user: 'app:ghosts' }))).rejects.toMatchObject({
      code: 'ENGINE_USER_UNKNOWN',
    });
    const ids = execFileSync(
      'docker',
      ['ps', '-aq', '--filter', `label=dev.skycap.run=${runId}`, '--filter', 'label=dev.skycap.role=step'],
      { encoding: 'utf8' },
    );
    expect(ids).toBe('');
  });
  it('puts files where they belong, for that container and user only', async () => {
    const file = (path: string, more: object) => ({
      path,
      content: Buffer.from(path),
      mode: 0o400,
      sensitive: true,
      readOnly: true,
      ...more,
    });
    const files = [
      file('/cnab/app/deep/secret', {}),
      file('/cnab/bundle.json', { mode: 0o444, sensitive: false }),
      file('/home/app/.ssh/key', {}),
      file('/home/app/config', { mode: 0o600, readOnly: false, sensitive: false }),
    ];
    const run = spec(
      `for f in ${files.map(({ path }) => path).join(' ')}; do busybox stat -c '%a %u' $f; busybox cat $f; echo; done; echo new > /home/app/config; busybox mv /home/app/config /home/app/c2; echo x 2>/dev/null > /cnab/bundle.json || echo ro`,
      { user: 'app', files },
    );
    const ended = await ends(run);
    expect(ended.stdout).toBe(
      '400 1234\n/cnab/app/deep/secret\n444 1234\n/cnab/bundle.json\n400 1234\n/home/app/.ssh/key\n600 1234\n/home/app/config\nro\n',
    );
    expect(await session.workspace.snapshot()).toEqual([]);
    const later = await ends(spec('busybox ls -A /cnab/app /home 2>&1; true'));
    expect(later.stdout).not.toContain('secret');
    await session.release(run.containerId, { keep: false });
    expect(execFileSync('find', [memory, folder, '-name', run.containerId], { encoding: 'utf8' })).toBe('');
  });
  it('collects regular files and nothing that leads elsewhere', async () => {
    const run = spec(
      `cd outputs; echo v > value; busybox ln -s /etc/passwd link; busybox mkfifo fifo; echo h > hard1; busybox ln hard1 hard2; busybox mkdir d; echo in > d/in; : > empty;
       busybox mkdir /data; echo out > /data/x; busybox ln -s /data /alias`,
    );
    await ends(run);
    notices.length = 0;
    const files = await session.collect(run.containerId, {
      paths: ['/cnab/app/outputs', '/data/x', '/alias/x', '/none'],
      maxFileBytes: 100,
      maxTotalBytes: 1000,
    });
    const found = Object.fromEntries(files.map((file) => [file.path, Buffer.from(file.content).toString()]));
    expect(found).toEqual({
      '/cnab/app/outputs/value': 'v\n',
      '/cnab/app/outputs/d/in': 'in\n',
      '/cnab/app/outputs/empty': '',
      '/data/x': 'out\n',
    });
    expect(notices.join('\n')).toContain('/alias/x is reached through the symbolic link /alias');
    const huge = spec('busybox dd if=/dev/zero of=outputs/huge bs=1 count=0 seek=1099511627776');
    await ends(huge);
    await expect(
      session.collect(huge.containerId, {
        paths: ['/cnab/app/outputs'],
        maxFileBytes: 100,
        maxTotalBytes: 1000,
      }),
    ).rejects.toMatchObject({ code: 'ENGINE_OUTPUT_TOO_LARGE' });
    await expect(
      session.collect('no-such', { paths: [], maxFileBytes: 1, maxTotalBytes: 1 }),
    ).rejects.toMatchObject({ code: 'ENGINE_CONTAINER_UNKNOWN' });
  });
  it('keeps a workspace in its paths: put, get, snapshot, remove', async () => {
    await session.workspace.put(packFiles({ 'a/one': '1', 'a/b/two': '2', three: '3' }));
    await ends(spec('busybox ln -s /etc evil; busybox ln a/one hard; busybox mkfifo pipe', { user: 'app' }));
    const before = await session.workspace.snapshot();
    expect(before.map(({ path, type }) => `${path}:${type}`).sort()).toEqual(
      [
        'a:directory',
        'a/one:file',
        'a/b:directory',
        'a/b/two:file',
        'three:file',
        'evil:symlink',
        'hard:file',
        'pipe:other',
      ].sort(),
    );
    const names = async (paths: readonly string[]): Promise<string[]> => {
      const found: string[] = [];
      for await (const entry of readArchive(await session.workspace.get(paths))) found.push(entry.path);
      return found;
    };
    expect(await names(['a/b', 'none', 'evil/passwd', 'three'])).toEqual(['a/b', 'a/b/two', 'three']);
    expect((await names(['.'])).length).toBe(8);
    await session.workspace.remove(['a', 'evil/passwd', 'none/x', 'pipe']);
    expect((await session.workspace.snapshot()).map((entry) => entry.path).sort()).toEqual([
      'evil',
      'hard',
      'three',
    ]);
    await expect(session.workspace.get(['../x'])).rejects.toMatchObject({ code: 'ENGINE_ARCHIVE_INVALID' });
    expect((await ends(spec('busybox cat hard three'))).stdout).toBe('13');
  });
  it('hands out the files of an image', async () => {
    const archive = await session.imageArchive('data', '/cnab/app');
    const found: Record<string, string> = {};
    for await (const entry of readArchive(archive as AsyncIterable<Uint8Array>))
      found[entry.path] = (await readAll(entry.content)).toString();
    expect(found).toEqual({ 'from-image': 'hello' });
    expect(await session.imageArchive('tools', '/cnab/app')).toBeUndefined();
  });
  it('cancels once by TERM, after the grace time by KILL, and at once when told twice', async () => {
    const first = new AbortController();
    const polite = await ends(
      spec(`trap 'echo bye; exit 9' TERM; echo up; while :; do busybox sleep 0.1; done`),
      {
        signal: first.signal,
        onOutput: (text) => text.includes('up') && first.abort(),
      },
    );
    expect(polite).toMatchObject({ exitCode: 9, cause: 'cancelled', stdout: 'up\nbye\n' });
    const stubborn = `trap '' TERM; echo up; while :; do busybox sleep 0.1; done`;
    const second = new AbortController();
    expect(
      await ends(spec(stubborn, { graceMs: 500 }), { signal: second.signal, onOutput: () => second.abort() }),
    ).toMatchObject({ exitCode: 137, cause: 'cancelled' });
    const third = new AbortController();
    const kill = new AbortController();
    await ends(spec(stubborn, { graceMs: 3_600_000 }), {
      signal: third.signal,
      kill: kill.signal,
      onOutput: () => {
        third.abort();
        kill.abort();
      },
    });
  });
  it('keeps a timeout', async () => {
    const ended = await ends(
      spec(`trap 'exit 7' TERM; while :; do busybox sleep 0.1; done`, { timeoutMs: 1500 }),
    );
    expect(ended.cause).toBe('timeout');
    // TERM may come before the shell has set its trap.
    expect([7, 143]).toContain(ended.exitCode);
  });
  it('keeps limits of memory and processes', async () => {
    const oom = await ends(
      spec(`x=0123456789; while :; do x=$x$x; done`, { resources: { memoryBytes: 32 * 1024 * 1024 } }),
    );
    expect(oom).toMatchObject({ exitCode: 137, cause: 'oom' });
    const pids = await ends(
      spec(`i=0; while [ $i -lt 40 ]; do busybox sleep 600 & i=$((i+1)); done`, { resources: { pids: 12 } }),
    );
    expect(pids.exitCode).not.toBe(0);
  });
  it('shares a home and /tmp where asked, and volumes by scope', async () => {
    const volumes = [
      { name: 'cache', path: '/var/cache/x', scope: 'installation' as const },
      { name: 'own', path: '/var/own', scope: 'run' as const },
    ];
    await ends(
      spec('echo $HOME; echo h > $HOME/f; echo t > /tmp/t; echo c > /var/cache/x/c; echo o > /var/own/o', {
        home: 'shared',
        volumes,
        user: 'app',
      }),
    );
    const ended = await ends(
      spec('busybox cat /root/f /tmp/t /var/cache/x/c /var/own/o; echo $HOME', {
        home: 'shared',
        volumes,
        user: '55:55',
      }),
    );
    expect(ended.stdout).toBe('h\nt\nc\no\n/home/nonroot\n');
    await session.close({ keepWorkspace: false });
    const kept = execFileSync(
      'docker',
      ['volume', 'ls', '-q', '--filter', `label=dev.skycap.installation=of-${runId}`],
      { encoding: 'utf8' },
    );
    expect(kept.trim().split('\n')).toHaveLength(1);
  });
  it('respects workspace ro and none, and makes a working directory', async () => {
    await session.workspace.put(packFiles({ f: 'x' }));
    expect((await ends(spec('echo no > f', { workspace: 'ro', user: 'app' }))).exitCode).not.toBe(0);
    expect(
      (await ends(spec('busybox ls /cnab/app; echo y > /cnab/app/outputs/o', { workspace: 'none' }))).stdout,
    ).toBe('outputs\n');
    expect(
      (await ends(spec('busybox pwd; echo x > here', { workingDir: '/cnab/app/new/dir', user: 'app' })))
        .stdout,
    ).toBe('/cnab/app/new/dir\n');
    expect((await ends(spec('busybox pwd', { workingDir: '/made/up' }))).stdout).toBe('/made/up\n');
  });
  it('has no network by default and one of its own where the session has one', async () => {
    expect((await ends(spec('busybox ip -o link | busybox wc -l'))).stdout.trim()).toBe('1');
    await session.close({ keepWorkspace: false });
    session = await open(runId, { network: true });
    expect(
      Number((await ends(spec('busybox ip -o link | busybox wc -l', { network: 'default' }))).stdout),
    ).toBeGreaterThan(1);
  });
  it('mounts the Docker socket for whoever has consent, whatever its user', async () => {
    const ended = await ends(
      spec('[ -S /var/run/docker.sock ] && [ -w /var/run/docker.sock ] && echo yes', {
        dockerSocket: true,
        user: 'app',
      }),
    );
    expect(ended.stdout).toBe('yes\n');
    expect((await ends(spec('[ -e /var/run/docker.sock ] || echo no'))).stdout).toBe('no\n');
  });
  it('confines: no new privileges, no raw sockets; privileged lifts both', async () => {
    const status = 'busybox grep -E "NoNewPrivs|CapBnd" /proc/self/status';
    const plain = await ends(spec(status));
    expect(plain.stdout).toContain('NoNewPrivs:\t1');
    expect(Number.parseInt(/CapBnd:\t(\w+)/.exec(plain.stdout)?.[1] ?? '', 16) & (1 << 13)).toBe(0);
    // A daemon that is confined itself cannot give what it does not have.
    const lifted = await ends(spec(status, { privileged: true })).catch((error: Error) => error);
    if (lifted instanceof Error) expect(lifted.message).toContain('unable to apply caps');
    else expect(lifted.stdout).toContain('NoNewPrivs:\t0');
  });
  it('keeps raw output of sensitive steps on the tmpfs, 0600, until it is released', async () => {
    const run = spec('echo hunter2', { sensitive: true });
    expect((await ends(run)).stdout).toBe('hunter2\n');
    const where = (): string =>
      execFileSync(
        'sh',
        ['-c', `grep -rl hunter2 ${folder} ${memory} /var/lib/docker/containers 2>/dev/null || true`],
        { encoding: 'utf8' },
      );
    const files = where()
      .split('\n')
      .filter((line) => line !== '' && !line.endsWith('config.v2.json'));
    expect(files).toEqual([join(memory, 'docker', `run-${runId}`, run.containerId, 'sensitive', 'output')]);
    expect(execFileSync('stat', ['-c', '%a', files[0] as string], { encoding: 'utf8' })).toBe('600\n');
    await session.release(run.containerId, { keep: false });
    expect(where()).toBe('');
  });
  it('lets sensitive output go on on disk where it is too much for memory, byte for byte', async () => {
    const run = spec('busybox yes 0123456789 | busybox head -c 70000000; printf end', { sensitive: true });
    notices.length = 0;
    const { stdout } = await ends(run);
    expect(stdout.length).toBe(70_000_003);
    expect(stdout.endsWith('end')).toBe(true);
    expect(notices.join('\n')).toContain('sensitive-overflow');
    const overflow = join(folder, 'docker', `run-${runId}`, run.containerId, 'sensitive-overflow');
    expect(execFileSync('stat', ['-c', '%a', overflow], { encoding: 'utf8' })).toBe('600\n');
    await session.release(run.containerId, { keep: false });
    expect(existsSync(overflow)).toBe(false);
  });
  it.each(['none', 'gzip', 'zstd'] as const)(
    'brings an image with %s layers from the store',
    async (compression) => {
      const { openStore } = await loadStore();
      await using real = await openStore({ directory: join(folder, `store-${compression}`) });
      const reference = `registry.test/acme/${compression}:1`;
      const program = { content: BUSYBOX, mode: 0o755 };
      const made = await makeImage(real, {
        compression,
        reference,
        files: { 'bin/busybox': program, 'bin/sh': program, marker: `${compression} ${runId}` },
      });
      await using other = await createDockerEngine({
        store: real,
        socketPath,
        runtimeDirectory: memory,
        workDirectory: folder,
        uid: process.getuid?.() ?? 0,
      });
      const id = `${runId}-s`;
      session = await other.open(
        { runId: id, installationId: 'x', images: { tools: made }, network: false },
        operation,
      );
      try {
        expect(await ends(spec('busybox cat /marker'))).toMatchObject({
          exitCode: 0,
          stdout: `${compression} ${runId}`,
        });
        const names = execFileSync(
          'docker',
          ['image', 'inspect', '-f', '{{.RepoTags}} {{.RepoDigests}}', made.configDigest],
          { encoding: 'utf8' },
        );
        expect(names).toContain(`skycap/registry.test/acme/${compression}:`);
        expect(names).not.toContain('127.0.0.1');
      } finally {
        await other.sweep(id, operation);
        execFileSync('docker', ['image', 'rm', '-f', made.configDigest], { stdio: 'ignore' });
      }
    },
  );
  it('hands a kept workspace on to a later run', async () => {
    await ends(spec('echo one > f', { user: 'app' }));
    await session.close({ keepWorkspace: true });
    const later = `${runId}-b`;
    session = await open(later, { workspaceOf: runId });
    try {
      await engine.sweep(runId, operation);
      expect((await ends(spec('busybox cat f; echo two > f', { user: '77:77' }))).stdout).toBe('one\n');
      await expect(open(`${runId}-c`, { workspaceOf: runId })).rejects.toMatchObject({
        code: 'ENGINE_SESSION_FAILED',
      });
      await session.close({ keepWorkspace: false });
      expect(left(runId)).toEqual([]);
    } finally {
      await engine.sweep(later, operation);
      expect(left(later)).toEqual([]);
    }
  });
  it('keeps a container with the command that opens a shell in it', async () => {
    const run = spec('echo here > /tmp/mine; echo ws > f; exit 1', { user: 'app' });
    await ends(run);
    const kept = await session.release(run.containerId, { keep: true });
    await session.close({ keepWorkspace: true });
    const script = String(kept?.shell.at(-1)).replace(' --tty', '');
    const said = execFileSync('sh', ['-c', script], {
      input: 'PATH=/bin; busybox cat /tmp/mine /cnab/app/f; busybox id -u\n',
      encoding: 'utf8',
    });
    expect(said).toBe('here\nws\n1234\n');
  });
  it('opens a shell in a container of the same description', async () => {
    const command = await session.shellCommand(spec('x', { user: 'app', env: { PATH: '/bin', A: 'b' } }));
    expect(command.slice(0, 5)).toEqual(['docker', '--host', `unix://${socketPath}`, 'start', '--attach']);
  });

  describe('a killed tool', () => {
    it('loses no output, no exit code and no timeout', async () => {
      const script = `
        import { createDockerEngine } from ${JSON.stringify(join(import.meta.dirname, 'index.ts'))};
        const input = JSON.parse(process.argv[1]);
        const engine = await createDockerEngine({ ...input.options, store: {}, archivesOnly: true });
        const operation = { signal: new AbortController().signal, emit() {} };
        const never = new AbortController().signal;
        const session = await engine.open(input.spec, operation);
        for (const run of input.runs) void session.run(run, { onOutput() {}, onStarted: () => console.log('started'), signal: never, kill: never });
      `;
      const other = `${runId}-k`;
      const slow = spec(`printf 'begin\\377'; busybox sleep 2; printf 'end' ; exit 42`, { user: 'app' });
      const hangs = spec('echo hangs; busybox sleep 600', { timeoutMs: 2500, graceMs: 300, user: 'app' });
      const input = {
        options: {
          socketPath,
          runtimeDirectory: memory,
          workDirectory: folder,
          uid: process.getuid?.() ?? 0,
        },
        spec: { runId: other, installationId: 'x', images, network: false },
        runs: [slow, hangs],
      };
      const child = spawn(
        process.execPath,
        ['--no-warnings', '--input-type=module', '-e', script, JSON.stringify(input)],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      let started = 0;
      await new Promise<void>((resolve) => {
        child.stdout.on('data', (chunk: Buffer) => {
          started += chunk.toString().split('started').length - 1;
          if (started === 2) resolve();
        });
      });
      child.kill('SIGKILL');
      try {
        const adopted = (await engine.adopt(other, operation)) as Session;
        const never = new AbortController().signal;
        const parts: Uint8Array[] = [];
        const attach = (id: string): Promise<ContainerExit | undefined> =>
          adopted.attach(id, { onOutput: (_, chunk) => parts.push(chunk), signal: never, kill: never });
        expect(await attach(slow.containerId)).toMatchObject({ exitCode: 42, cause: 'exited' });
        expect(Buffer.concat(parts).toString('latin1')).toBe('begin\xffend');
        expect(await attach(hangs.containerId)).toMatchObject({ cause: 'timeout' });
        expect(await attach('never-made')).toBeUndefined();
        // A second look replays from the first byte.
        parts.length = 0;
        await attach(slow.containerId);
        expect(Buffer.concat(parts).toString('latin1')).toBe('begin\xffend');
        await adopted.close({ keepWorkspace: false });
      } finally {
        await engine.sweep(other, operation);
        expect(left(other)).toEqual([]);
        expect(existsSync(join(folder, 'docker', `run-${other}`))).toBe(false);
      }
    });
    it('is not needed: a container whose supervisor was killed too ends as unknown, never green', async () => {
      const gate = makeGate();
      const run = spec(`echo a; busybox sleep ${gate.seconds} || :; exit 0`);
      const ending = ends(run, {
        onOutput: () => {
          const { pid } = JSON.parse(
            readFileSync(
              join(folder, 'docker', `run-${runId}`, run.containerId, 'plain', 'supervisor.json'),
              'utf8',
            ),
          ) as { pid: number };
          process.kill(pid, 'SIGKILL');
          void gate.open();
        },
      });
      expect(await ending).toMatchObject({ exitCode: 0, cause: 'unknown' });
    });
  });

  it('takes an image only by the digest of its config', async () => {
    const wrong = await image({}, { x: 'y' });
    const other = blobs.get(images.tools?.configDigest as string) as Buffer;
    blobs.set(wrong.configDigest, other);
    await expect(
      engine.open({ runId: `${runId}-w`, installationId: 'x', images: { wrong }, network: false }, operation),
    ).rejects.toMatchObject({ code: 'ENGINE_DOCKER_IMAGE' });
    expect(left(`${runId}-w`)).toEqual([]);
  });
});
