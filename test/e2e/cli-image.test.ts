import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signImage } from '../../src/testkit/images/index.ts';
import { stoppingFront } from '../support/stopping-front.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

interface Copied {
  readonly digest: string;
  readonly sourceDigest: string;
  readonly digestPreserved: boolean;
  readonly changed?: string;
  readonly referrers: number;
  readonly copiedBytes: number;
  readonly blobs: { readonly copied: number; readonly mounted: number };
}

let world: World;
let cwd: string;
let remote: string;

beforeAll(async () => {
  world = await makeWorld('oci-runtime');
  cwd = join(world.directory, 'work');
  mkdirSync(join(cwd, 'rootfs/etc'), { recursive: true });
  mkdirSync(join(cwd, 'top/app'), { recursive: true });
  writeFileSync(join(cwd, 'rootfs/etc/motd'), 'base');
  writeFileSync(join(cwd, 'top/app/run'), 'app');
  remote = await world.image('one:1', {
    files: { f: 'remote', big: { content: randomBytes(200_000) } },
    compression: 'gzip',
  });
  for (const platform of ['linux/amd64', 'linux/arm64']) {
    const name = `localhost/base:${platform.slice(6)}`;
    expectCode(await skycap('image', 'import', 'rootfs', name, '--platform', platform, '--env', 'A=1'), 0);
  }
  expectCode(
    await skycap(
      'image',
      'index',
      'create',
      'localhost/base:1',
      'localhost/base:amd64',
      'localhost/base:arm64',
    ),
    0,
  );
});
afterAll(() => world[Symbol.asyncDispose]());

async function skycap(...args: string[]) {
  return await world.skycap(args, { cwd });
}

async function json<T>(...args: string[]): Promise<T> {
  return expectCode(await skycap(...args, '-o', 'json'), 0).json<T>();
}

interface Inspected {
  readonly digest: string;
  readonly layers: readonly { readonly diffId: string }[];
  readonly config: {
    readonly env: readonly string[];
    readonly labels: Record<string, string>;
    readonly user: string;
  };
  readonly annotations: Record<string, string>;
}

async function inspect(image: string): Promise<Inspected> {
  return await json('image', 'inspect', image, '--platform', 'linux/amd64');
}

/** The layer that a killed copy left in the middle. */
function partialOf(layout: string): string {
  const folder = join(layout, '.skycap-copy');
  const [name = '', ...others] = readdirSync(folder).filter((entry) => entry.endsWith('.part'));
  expect(others).toEqual([]);
  return join(folder, name);
}

describe('image copy', () => {
  it('goes from a registry through a layout and an archive to the store with one digest', async () => {
    const first = await json<Copied>('image', 'copy', remote, 'oci:lay:v1');
    expect(first).toMatchObject({ digestPreserved: true });
    const hops = [
      ['oci:lay:v1', 'oci-archive:one.tar:v1'],
      ['oci-archive:one.tar', 'store:localhost/copied:1'],
      ['store:localhost/copied:1', `docker://${world.registry}/far/one:1`],
    ] as const;
    for (const hop of hops)
      expect(await json<Copied>('image', 'copy', ...hop)).toMatchObject({ digest: first.digest });
    expect(readdirSync(join(cwd, 'lay')).sort()).toEqual(['blobs', 'index.json', 'oci-layout']);
  });

  it('says that and why an archive of Docker has another digest', async () => {
    const ran = expectCode(await skycap('image', 'copy', remote, 'docker-archive:d.tar:x/y:1'), 0);
    expect(ran.stdout).toMatch(/^Changed: +the digest is another: Docker keeps layers uncompressed/m);
    expect(ran.stderr).toMatch(/^blob sha256:[0-9a-f]{12}: copied, /m);
    expect(ran.stderr.match(/^blob sha256/gm)).toHaveLength(2);
    const back = await json<Copied>(
      'image',
      'copy',
      'docker-archive:d.tar:x/y:1',
      'store:localhost/copied:d',
    );
    expect(back.digestPreserved).toBe(false);
    const before = await json<{ changes: unknown[] }>(
      'image',
      'diff',
      `docker://${remote}`,
      'localhost/copied:d',
      '--times',
    );
    expect(before.changes).toEqual([]);
  });

  it('packs the layers of an archive of Docker for a registry, unless told not to', async () => {
    const types = async (name: string, ...flags: string[]): Promise<readonly string[]> => {
      const to = `${world.registry}/packed/${name}`;
      const copied = await json<Copied>('image', 'copy', 'docker-archive:d.tar', to, ...flags);
      expect(copied.digestPreserved).toBe(false);
      const { layers } = await json<{ layers: { mediaType: string }[] }>(
        'image',
        'inspect',
        `docker://${to}`,
      );
      return layers.map(({ mediaType }) => mediaType.replace(/^.*tar/, ''));
    };
    expect(await types('g:1')).toEqual(['+gzip']);
    expect(await types('z:1', '--compression', 'zstd')).toEqual(['+zstd']);
    expect(await types('n:1', '--compression', 'none')).toEqual(['']);
    expectCode(await skycap('image', 'validate', `docker://${world.registry}/packed/g:1`), 0);
    const scratch = join(world.env.XDG_CACHE_HOME ?? '', 'skycap/copy');
    expect(readdirSync(scratch)).toEqual([]);
  });

  it('moves no layer between repositories of one registry', async () => {
    const from = world.requests.length;
    const copied = await json<Copied>('image', 'copy', remote, `${world.registry}/near/one:1`);
    expect(copied).toMatchObject({ copiedBytes: 0, digestPreserved: true });
    const moved = world.requests
      .slice(from)
      .filter(({ method, path }) => method !== 'HEAD' && path.includes('/blobs/sha256:'));
    expect(moved).toEqual([]);
  });

  it('carries what refers to an image along, if asked', async () => {
    const image = await world.image('signed:1', { files: { f: 'signed' } });
    const digest = (await world.images.resolve('localhost/signed:1'))?.digest;
    if (digest === undefined) throw new Error('the registry lost an image');
    await signImage(world.images, 'localhost/signed', digest);
    const hops = [
      [image, 'oci-archive:signed.tar'],
      ['oci-archive:signed.tar', `${world.registry}/far/signed:1`],
    ] as const;
    for (const hop of hops) {
      const copied = await json<Copied>('image', 'copy', ...hop, '--referrers');
      expect(copied).toMatchObject({ digest, referrers: 2 });
    }
    const far = `docker://${world.registry}/far/signed:1`;
    const tree = expectCode(await skycap('image', 'tree', far, '--referrers'), 0);
    expect(tree.stdout).toMatch(/├─ referrer manifest .*test\/signature/);
    expect(tree.stdout).toMatch(/└─ sha256-[0-9a-f]{64}\.sig /);
  });

  it('copies platforms of an index, and the index whole', async () => {
    const whole = await json<Copied>('image', 'copy', 'store:localhost/base:1', 'oci:whole');
    expect(whole.digestPreserved).toBe(true);
    const one = await json<Copied>(
      'image',
      'copy',
      'store:localhost/base:1',
      'oci:arm',
      '--platform',
      'linux/arm64',
    );
    expect(one).toMatchObject({ digestPreserved: false, changed: expect.stringContaining('linux/arm64') });
    const index = (folder: string) =>
      JSON.parse(readFileSync(join(cwd, folder, 'index.json'), 'utf8')) as {
        manifests: { digest: string }[];
      };
    expect(index('whole').manifests.map(({ digest }) => digest)).toEqual([whole.digest]);
    expect(index('arm').manifests.map(({ digest }) => digest)).toEqual([one.digest]);
  });

  it('goes on where it was killed', async () => {
    const size = 24_000_000;
    const big = await world.image('big:1', { files: { big: { content: randomBytes(size) } } });
    // The registry stops in the middle of the layer, so that it is the middle wherever the kill falls.
    await using front = await stoppingFront(world.registry, size / 2);
    const args = ['image', 'copy', big.replace(world.registry, front.host), 'oci:killed'];
    const flags = ['--progress', 'json', '--verbosity', 'debug'];
    const running = world.start([...args, ...flags], { cwd });
    await running.said(/"doneBytes":1\d{7},/);
    running.process.kill('SIGKILL');
    await running.ended;
    expect(existsSync(join(cwd, 'killed/index.json'))).toBe(false);
    const kept = statSync(partialOf(join(cwd, 'killed'))).size;
    // What came is written by the MiB, and at most two of these were on their way.
    expect(kept).toBeGreaterThanOrEqual(10_000_000 - 2 * 2 ** 20);
    expect(kept).toBeLessThanOrEqual(size / 2);
    front.goOn();
    const again = expectCode(await skycap(...args, ...flags), 0);
    expect(front.ranges).toEqual([undefined, `bytes=${kept}-`]);
    const first = again.events.find(
      (event) => event.type === 'blob.progress' && (event.sizeBytes as number) >= size,
    );
    expect(first?.doneBytes).toBeGreaterThan(kept);
    expectCode(await skycap('image', 'validate', 'oci:killed'), 0);
    expect(readdirSync(join(cwd, 'killed')).sort()).toEqual(['blobs', 'index.json', 'oci-layout']);
    rmSync(join(cwd, 'killed'), { recursive: true });
  });
});

describe('images are made of images', () => {
  it('append, config, flatten: the files and settings are those that were asked for', async () => {
    await json('image', 'append', 'localhost/base:amd64', 'localhost/app:1', 'top');
    const appended = await inspect('localhost/app:1');
    expect(appended.layers).toHaveLength(2);
    expect(appended.annotations).toMatchObject({
      'org.opencontainers.image.base.name': 'localhost/base:amd64',
    });
    await json(
      'image',
      'config',
      'localhost/app:1',
      'localhost/app:2',
      '--env',
      'B=2',
      '--unset-env',
      'A',
      '--label',
      'k=v',
      '--user',
      '7',
      '--annotation',
      'a=b',
    );
    const changed = await inspect('localhost/app:2');
    expect(changed.config).toMatchObject({ env: ['B=2'], labels: { k: 'v' }, user: '7' });
    expect(changed.annotations).toMatchObject({ a: 'b' });
    await json('image', 'flatten', 'localhost/app:2', 'localhost/app:flat');
    expect((await inspect('localhost/app:flat')).layers).toHaveLength(1);
    const diff = expectCode(await skycap('image', 'diff', 'localhost/app:2', 'localhost/app:flat'), 0);
    expect(diff.stdout).toBe('no differences\n');
    const more = expectCode(await skycap('image', 'diff', 'localhost/base:amd64', 'localhost/app:2'), 0);
    expect(more.stdout).toBe('A /app\nA /app/run  (3 B)\n');
  });

  it('rebase exchanges the base, and refuses to where files meet', async () => {
    writeFileSync(join(cwd, 'rootfs/etc/motd'), 'patched');
    await json('image', 'import', 'rootfs', 'localhost/base:patched', '--platform', 'linux/amd64');
    await json('image', 'append', 'localhost/base:amd64', 'localhost/re:1', 'top');
    await json('image', 'rebase', 'localhost/re:1', 'localhost/re:2', '--base', 'localhost/base:patched');
    const diff = expectCode(await skycap('image', 'diff', 'localhost/re:1', 'localhost/re:2'), 0);
    expect(diff.stdout).toBe('C /etc/motd  (content; 4 B to 7 B)\n');
    mkdirSync(join(cwd, 'clash/etc'), { recursive: true });
    writeFileSync(join(cwd, 'clash/etc/motd'), 'mine');
    await json('image', 'append', 'localhost/base:amd64', 'localhost/clash:1', 'clash');
    const args = [
      'image',
      'rebase',
      'localhost/clash:1',
      'localhost/clash:2',
      '--base',
      'localhost/base:patched',
    ];
    const refused = expectCode(await skycap(...args), 21);
    expect(refused.stderr).toContain('OCI_REBASE_REFUSED');
    expect(refused.stderr).toContain('it replaces /etc/motd of the base');
    expectCode(await skycap(...args, '--allow-conflicts'), 0);
  });

  it('index: adding, removing and filtering lead where they say', async () => {
    const platforms = async (...args: string[]): Promise<readonly string[]> =>
      (await json<{ platforms: readonly string[] }>('image', 'index', ...args)).platforms;
    const before = (
      await json<{ digest: string }>(
        'image',
        'index',
        'filter',
        'localhost/base:1',
        '--platform',
        'linux/amd64',
        '--platform',
        'linux/arm64',
        '--as',
        'localhost/i:1',
      )
    ).digest;
    expect(await platforms('remove', 'localhost/i:1', '--platform', 'linux/arm64')).toEqual(['linux/amd64']);
    expect(
      await platforms('filter', 'localhost/base:1', '--platform', 'linux/arm64', '--as', 'localhost/i:arm'),
    ).toEqual(['linux/arm64']);
    expect(await platforms('add', 'localhost/i:1', 'localhost/base:arm64')).toEqual([
      'linux/amd64',
      'linux/arm64',
    ]);
    const after = await json<{ digest: string }>('image', 'tree', 'localhost/i:1');
    expect(after.digest).toBe(before);
  });

  it('tree shows the parts, and the files', async () => {
    const parts = expectCode(await skycap('image', 'tree', 'localhost/base:1'), 0);
    expect(parts.stdout).toMatch(
      /^index .*\n├─ manifest .*linux\/amd64.*\n│ {2}├─ config .*\n│ {2}└─ layer /,
    );
    const files = expectCode(
      await skycap('image', 'tree', 'localhost/base:amd64', '--files', '--platform', 'linux/amd64'),
      0,
    );
    expect(files.stdout).toMatch(/^0644 \d+:\d+ +4 B {2}\/etc\/motd$/m);
  });

  it('validate finds a flipped bit, and nothing in what is sound', async () => {
    await json('image', 'copy', 'store:localhost/base:1', 'oci:flip');
    expect(expectCode(await skycap('image', 'validate', 'oci:flip'), 0).stdout).toContain(
      ': valid, 3 manifests',
    );
    expectCode(await skycap('image', 'validate', `docker://${remote}`), 0);
    const layer =
      (
        await json<{ layers: { digest: string }[] }>(
          'image',
          'inspect',
          'oci:flip',
          '--platform',
          'linux/amd64',
        )
      ).layers[0]?.digest ?? '';
    const path = join(cwd, 'flip/blobs', ...layer.split(':'));
    const bytes = readFileSync(path);
    bytes[bytes.length - 9] = (bytes[bytes.length - 9] as number) ^ 1;
    writeFileSync(path, bytes);
    const found = expectCode(await skycap('image', 'validate', 'oci:flip', '-o', 'json'), 21);
    expect(found.json()).toMatchObject({
      isValid: false,
      findings: [{ code: 'OCI_BLOB_CORRUPT', digest: layer }],
    });
    expectCode(
      await skycap('image', 'inspect', 'localhost/base:1', '--platform', 'linux/amd64', '-o', 'yaml'),
      0,
    );
  });
});

describe('bad input has its code', () => {
  const base = 'store:localhost/base:1';
  it.each([
    [['copy', 'docker:x', 'oci:o'], 20, 'OCI_TRANSPORT_INVALID'],
    [['copy', 'a b', 'oci:o'], 20, 'REFERENCE_INVALID'],
    [['copy', 'oci:none', 'oci:o'], 24, 'OCI_LAYOUT_INVALID'],
    [['copy', 'oci-archive:none.tar', 'oci:o'], 24, 'OCI_ARCHIVE_INVALID'],
    [['copy', base, 'oci-archive:rootfs'], 24, 'OCI_ARCHIVE_WRITE'],
    [['copy', base, 'oci:rootfs'], 24, 'OCI_LAYOUT_INVALID'],
    [['copy', base, 'oci:o', '--platform', 'linux/s390x'], 22, 'OCI_PLATFORM_MISSING'],
    [['copy', base, 'oci:o', '--platform', 'linux'], 20, 'PLATFORM_INVALID'],
    [['copy', base, 'docker-archive:o', '--referrers'], 28, 'OCI_CONVERSION_IMPOSSIBLE'],
    [['copy', base], 2, 'USAGE'],
    [['inspect', 'localhost/none:1'], 20, 'OCI_IMAGE_MISSING'],
    [['validate', 'oci:none'], 24, 'OCI_LAYOUT_INVALID'],
    [
      ['append', 'localhost/base:amd64', 'localhost/x:1', 'none', '--platform', 'linux/amd64'],
      2,
      'FILE_UNREADABLE',
    ],
    [['config', 'localhost/base:1', 'localhost/x:1', '--env', 'none'], 2, 'USAGE'],
    [['config', 'localhost/base:1', 'localhost/x:1', '--workdir', 'x'], 2, 'USAGE'],
    [
      ['flatten', 'localhost/base:1', 'localhost/x:1', '--keep', '9', '--platform', 'linux/amd64'],
      21,
      'OCI_EDIT_INVALID',
    ],
    [['rebase', 'localhost/base:1', 'localhost/x:1', '--platform', 'linux/amd64'], 2, 'USAGE'],
    [
      [
        'rebase',
        'localhost/base:1',
        'localhost/x:1',
        '--base',
        'localhost/base:1',
        '--platform',
        'linux/amd64',
      ],
      21,
      'OCI_REBASE_REFUSED',
    ],
    [['index', 'add', 'localhost/base:1', 'localhost/base:arm64'], 21, 'OCI_EDIT_INVALID'],
    [['index', 'remove', 'localhost/base:1', '--platform', 'linux/s390x'], 21, 'OCI_EDIT_INVALID'],
    [['index', 'remove', 'localhost/base:1', '--digest', 'sha256:x'], 20, 'DIGEST_INVALID'],
    [['index', 'filter', 'localhost/base:amd64', '--platform', 'linux/amd64'], 2, 'USAGE'],
    [['diff', 'localhost/base:1', 'localhost/none:1', '--platform', 'linux/amd64'], 20, 'OCI_IMAGE_MISSING'],
  ] as const)('%j', async (args, exitCode, code) => {
    const ran = expectCode(await skycap('image', ...args), exitCode);
    expect(ran.stderr).toContain(code);
  });

  it('a daemon that does not answer', async () => {
    const env = { DOCKER_HOST: `unix://${cwd}/none.sock` };
    const ran = await world.skycap(['image', 'copy', 'docker-daemon:x', 'oci:o'], { cwd, env });
    expect(expectCode(ran, 26).stderr).toContain('OCI_DAEMON_UNREACHABLE');
  });

  it('a daemon that refuses', async () => {
    const socket = join(cwd, 'daemon.sock');
    const server = createServer((_request, response) => {
      response.statusCode = 500;
      response.end('{"message":"no room"}');
    });
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    const env = { DOCKER_HOST: `unix://${socket}` };
    for (const ends of [
      ['docker-daemon:x', 'oci:o'],
      [base, 'docker-daemon:x', '--platform', 'linux/amd64'],
    ]) {
      const ran = await world.skycap(['image', 'copy', ...ends], { cwd, env });
      expect(expectCode(ran, 28).stderr).toMatch(/OCI_DAEMON_REFUSED.*no room/);
    }
    server.close();
  });
});
