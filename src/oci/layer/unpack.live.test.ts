import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { inPieces, makeImage, recordingTransfer, type TarFile, tarOf } from '../../testkit/images/index.ts';
import { importRootfs } from '../image/index.ts';
import { openStore } from '../store/index.ts';
import { GnuTarSink, type LayerSink, NodeSink, packFolder, unpackLayer } from './index.ts';

// As root, with GNU tar, attr and coreutils: what the peers make of a tree, and nothing outside it.
const platform = { os: 'linux', architecture: 'amd64' };
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-unpack-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

function sh(script: string, cwd = directory): string {
  return execFileSync('bash', ['-euc', script], {
    cwd,
    encoding: 'latin1',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Everything about a tree but the inode numbers and the root's own times, whatever order its file system lists names in. */
function tree(folder: string): string {
  const files = sh(
    String.raw`find . -mindepth 1 \( -type f -printf '%P\t%y\t%m\t%U:%G\t%l\t%n\t%T@\t%s\0' -o -printf '%P\t%y\t%m\t%U:%G\t%l\t%n\t%T@\0' \) | LC_ALL=C sort -z | tr '\0' '\n'`,
    folder,
  );
  const devices = sh(
    `find . \\( -type c -o -type b \\) -exec stat -c '%n %t:%T' {} + | LC_ALL=C sort`,
    folder,
  );
  const sums = sh(`find . -type f -exec sha256sum {} + | LC_ALL=C sort`, folder);
  const xattrs = sh(`getfattr -R -h -d -m - -e hex . 2>/dev/null | LC_ALL=C sort`, folder);
  return [files, devices, sums, xattrs].join('\n');
}

const TREE = String.raw`
mkdir -p a/deep/er "sp ace"; echo hello > a/f; ln a/f a/hard; ln -s ../a/f a/soft; ln -s /etc/shadow abs
printf 'x%.0s' $(seq 250) > long; cp long "a/$(printf 'n%.0s' $(seq 240))"
mknod dev c 1 3; mknod blk b 7 200; mkfifo pipe; head -c 300000 /dev/urandom > big
chown 12:34 a/f; chown 3000000:4000000 big; chmod 4755 big; chmod 1777 a/deep; chmod 0 long
setfattr -n user.bin -v 0x00ff0a3d a; setfattr -n user.t -v hi big
setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 a/f
touch -d '2001-02-03 04:05:06.123456789' long; touch -d '1969-12-31 00:00:00.5' pipe; touch -h -d @77 abs
echo x > "a/deep/$(printf 'nl\nq\x27\xff')"; truncate -s 100000 hole
`;

describe.each<[string, (folder: string) => LayerSink]>([
  ['GNU tar', (folder) => new GnuTarSink(folder)],
  ['our own writer', (folder) => new NodeSink(folder)],
])('written by %s', (name, sink) => {
  const unpack = async (bytes: AsyncIterable<Uint8Array>, into: string): Promise<void> => {
    await mkdir(into);
    await unpackLayer(bytes, sink(into), { map: undefined, signal: new AbortController().signal });
  };

  it.each(['posix', 'gnu'])('a tree that GNU tar packed (%s) comes out as it was', async (format) => {
    const source = join(directory, 'source');
    await mkdir(source);
    sh(TREE, source);
    // Half a microsecond from where the rounding below could go either way.
    sh(`cd source; find . -newermt 2020-01-01 -exec touch -h -d '2026-01-02 03:04:05.1234565' {} +`);
    const names = format === 'posix' ? '--xattrs --xattrs-include=*' : '';
    sh(`tar -C source --format=${format} ${names} -cf packed.tar .`);
    await unpack(inPieces(await readFile(join(directory, 'packed.tar')), 65_536), join(directory, 'out'));
    if (format === 'gnu') {
      // This form has no attributes and whole seconds only.
      sh(`cd source; find . -exec touch -h -d "@$(stat -c %Y {})" {} \\; 2>/dev/null || true`);
      expect(sh('diff -r --no-dereference source/a out/a && echo same')).toContain('same');
      return;
    }
    // Node's clock calls take seconds as a double, which is good for a quarter of a microsecond.
    const rounded = (text: string): string =>
      name === 'GNU tar' ? text : text.replaceAll(/(\.\d{6})\d+/g, '$1');
    expect(rounded(tree(join(directory, 'out')))).toBe(rounded(tree(source)));
  });

  it('a tree of many files in many folders comes out as it was, times of folders too', async () => {
    const source = join(directory, 'source');
    await mkdir(source);
    sh(
      `
for d in $(seq 40); do
  mkdir -p d$d/sub; for f in $(seq 20); do echo $d.$f > d$d/f$f; echo $f > d$d/sub/g$f; done
  ln d$d/f1 d$(((d * 7) % 40 + 1))/from$d 2>/dev/null || ln d$d/f1 from$d
  ln -s ../d$d d$d/self; chown $d:$((d + 1)) d$d d$d/f2; chmod $((500 + d % 8)) d$d/sub; chmod 2755 d$d
done
setfattr -n user.kept -v y d7; setfacl -d -m u:1000:rwx d*/sub; mknod d9/dev c 1 5
find . -type d -exec touch -d '2001-02-03 04:05:06' {} +; find . ! -type d ! -type l -exec touch -d '2002-03-04 05:06:07' {} +
touch -h -d @77 d*/self`,
      source,
    );
    sh(`tar -C source --format=posix --xattrs --xattrs-include=* --sort=none -cf packed.tar .`);
    await unpack(inPieces(await readFile(join(directory, 'packed.tar')), 65_536), join(directory, 'out'));
    expect(tree(join(directory, 'out'))).toBe(tree(source));
  });

  it('L25 nothing outside is touched, whatever the layer tries', async () => {
    const canary = join(directory, 'canary');
    await mkdir(canary);
    await writeFile(join(canary, 'secret'), 'secret');
    await writeFile(join(canary, 'victim'), 'victim');
    const before = tree(canary);
    const up = '../'.repeat(20);
    const hostile: readonly (readonly TarFile[])[] = [
      [
        { path: 'l', type: 'symlink', linkPath: canary },
        { path: 'l/escaped', content: 'x' },
      ],
      [
        { path: 'l', type: 'symlink', linkPath: `${up}${canary}` },
        { path: 'l/secret', content: 'x' },
      ],
      [{ path: `${up}${canary}/escaped`, content: 'x' }],
      [
        { path: 'h', type: 'link', linkPath: `${canary}/secret` },
        { path: 'h', content: 'x' },
      ],
      [
        { path: 's', type: 'symlink', linkPath: `${canary}/secret` },
        { path: 's', content: 'x' },
      ],
      [
        { path: 's', type: 'symlink', linkPath: `${canary}/secret` },
        { path: 'h', type: 'link', linkPath: 's', mode: 0o777 },
      ],
      [{ path: 'l', type: 'symlink', linkPath: canary }, { path: 'l/.wh.victim' }],
      [{ path: `${up}${canary}/.wh.victim` }],
      [
        { path: 'l', type: 'symlink', linkPath: canary },
        { path: 'l', type: 'directory', mode: 0o777 },
      ],
      [
        { path: './', type: 'symlink', linkPath: canary },
        { path: 'escaped', content: 'x' },
      ],
      [
        { path: 'dev', type: 'symlink', linkPath: canary },
        { path: 'dev/escaped', content: 'x' },
      ],
      [
        { path: 'l', type: 'symlink', linkPath: `/proc/self/root${canary}` },
        { path: 'l/escaped', content: 'x' },
      ],
    ];
    for (const [index, files] of hostile.entries()) {
      const into = join(directory, `out${index}`);
      try {
        await unpack(inPieces(tarOf(files)), into);
      } catch (error) {
        expect(isSkycapError(error) || (error as Error).name === 'NeedsParents', String(error)).toBe(true);
      }
      expect(tree(canary), `layer ${index}`).toBe(before);
    }
  });
});

it('L26 a folder packs to equal bytes, and umoci makes the same tree of the image', async () => {
  const source = join(directory, 'source');
  await mkdir(source);
  sh(TREE, source);
  sh('rm -f blk dev "a/$(printf n%.0s $(seq 240))"; find . -exec touch -h -d @1600000000 {} +', source);
  const bytes = async (): Promise<Buffer> => {
    const parts: Buffer[] = [];
    for await (const part of packFolder(source)) parts.push(part);
    return Buffer.concat(parts);
  };
  expect((await bytes()).equals(await bytes())).toBe(true);
  await using store = await openStore({ directory: join(directory, 'store') });
  const transfer = recordingTransfer();
  const options = { config: {}, platform, reference: 'localhost/a:1' };
  const image = await importRootfs(store, { ...options, folder: source }, transfer);
  const again = await importRootfs(store, { ...options, folder: source }, transfer);
  expect(again.digest).toBe(image.digest);
  sh(
    'umoci unpack --image store:localhost/a:1 bundle 2>&1 || (skopeo copy -q oci:store:localhost/a:1 oci:plain:1 && umoci unpack --image plain:1 bundle)',
  );
  const [lower] = await store.lowers(image, undefined, transfer);
  expect(tree(lower?.path ?? '')).toBe(tree(source));
  expect(tree(join(directory, 'bundle', 'rootfs'))).toBe(tree(source));
});

it('a full disk is said so, at a blob and at a layer, and a try with room succeeds', async () => {
  const small = join(directory, 'small');
  await mkdir(small);
  sh('mount -t tmpfs -o size=3m tmpfs small');
  try {
    const transfer = recordingTransfer();
    await using store = await openStore({ directory: join(small, 'store') });
    const code = async (work: Promise<unknown>): Promise<string> =>
      await work.then(
        () => 'done',
        (error: unknown) => (isSkycapError(error) ? error.code : String(error)),
      );
    const big = { path: 'f', content: Buffer.alloc(5_000_000, 'x') };
    expect(await code(makeImage(store, { platform, files: { f: { content: big.content } } }))).toBe(
      'DISK_FULL',
    );
    expect(sh('find small/store/ingest small/store/blobs -type f')).toBe('');
    const files = { f: { content: big.content } };
    const image = await makeImage(store, {
      platform,
      files,
      compression: 'gzip',
      reference: 'localhost/a:1',
    });
    expect(await code(store.lowers(image, undefined, transfer))).toBe('DISK_FULL');
    expect(sh('ls small/store/layers')).toBe('');
    sh('mount -o remount,size=30m small');
    expect(await store.lowers(image, undefined, transfer)).toHaveLength(1);
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  } finally {
    sh('umount small');
  }
});

it('skopeo reads the layout, and what it and buildah write is read', async () => {
  await using store = await openStore({ directory: join(directory, 'store') });
  await makeImage(store, { platform, files: { f: 'x' }, reference: 'localhost/a:1', compression: 'zstd' });
  sh('skopeo copy -q oci:store:localhost/a:1 oci:copy:1 && skopeo inspect oci:copy:1 >/dev/null');
  expect(JSON.parse(sh('skopeo inspect --raw oci:store:localhost/a:1'))).toMatchObject({ schemaVersion: 2 });
});
