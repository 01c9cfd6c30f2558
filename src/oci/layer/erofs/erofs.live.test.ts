import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  inPieces,
  makeImage,
  recordingTransfer,
  type TarFile,
  tarOf,
} from '../../../testkit/images/index.ts';
import { type Grown, grownTree } from '../../../testkit/layers/index.ts';
import { fc } from '../../../testkit/property.ts';
import type { IdMap } from '../../port.ts';
import { openStore } from '../../store/index.ts';
import { GnuTarSink, openErofsSink, unpackLayer } from '../index.ts';

// As root, with erofs-utils, attr and coreutils: fsck.erofs and the kernel are the judges.
const signal = new AbortController().signal;
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-erofs-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** In a mount namespace of its own, so that nothing stays mounted. */
function sh(script: string): string {
  return execFileSync('unshare', ['--mount', 'bash', '-euc', script], {
    cwd: directory,
    encoding: 'latin1',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 2 ** 28,
  });
}

async function both(tar: Uint8Array, name: string, map?: IdMap): Promise<void> {
  const options = { map, signal };
  await unpackLayer(inPieces(tar, 65_536), await openErofsSink(join(directory, `${name}.erofs`)), options);
  await mkdir(join(directory, name));
  await unpackLayer(inPieces(tar, 65_536), new GnuTarSink(join(directory, name)), options);
}

/** Shell text that fails unless fsck.erofs is content: its exit status (1.5) says nothing. */
const fsck = (image: string): string => `fsck.erofs -d3 --extract ${image} 2>&1 | grep -q 'No errors found'`;

/** Shell text that prints everything about the tree in `folder` but inode numbers and the sizes of directories. */
const describeTree = (folder: string): string => String.raw`(cd ${folder}
find . -mindepth 1 \( -type d -printf '%P\t%y\t%m\t%U:%G\t%n\t%T@\0' -o -printf '%P\t%y\t%m\t%U:%G\t%l\t%n\t%T@\t%s\0' \) | LC_ALL=C sort -z
find . \( -type c -o -type b \) -exec stat -c '%n %t:%T' {} + | LC_ALL=C sort
find . -links +1 ! -type d -printf '%i %P\n' | LC_ALL=C sort -k 2 | awk '{ n[$1] = n[$1] $2 " " } END { for (i in n) print n[i] }' | LC_ALL=C sort
find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum
getfattr -R -P -h -d -m - -e hex . 2>/dev/null | awk 'BEGIN { RS = "" } { print | "LC_ALL=C sort" }')`;

const TREE = String.raw`
mkdir -p a/deep/er "sp ace" many; echo hello > a/f; ln a/f a/hard; ln a/f z; ln -s ../a/f a/soft; ln -s /etc/shadow abs
printf 'x%.0s' $(seq 250) > long; cp long "a/$(printf 'n%.0s' $(seq 240))"; : > empty
mknod dev c 1 3; mknod blk b 7 70000; mkfifo pipe; head -c 3000000 /dev/urandom > big
ln -s "$(printf 'l%.0s' $(seq 4095))" longlink; ln -s "$(printf 'l%.0s' $(seq 4032))" brim
for size in 1 4095 4096 4097 8192; do head -c $size /dev/urandom > size$size; done
for i in $(seq 700); do echo $i > many/a-file-with-a-name-of-some-length-$i; done
chown 12:34 a/f; chown 3000000:4000000 big; chmod 4755 big; chmod 1777 a/deep; chmod 0 long
setfattr -n user.bin -v 0x00ff0a3d a; setfattr -n user.t -v hi big; setfattr -n user.e big
setfattr -n user.large -v 0x$(head -c 3900 /dev/urandom | od -An -v -tx1 | tr -d ' \n') many
setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 a/f
setfacl -m u:7:rwx,g:8:r big; setfacl -d -m u:7:rwx a/deep
echo x > "a/deep/$(printf 'nl\nq\x27\xff')"
find . -exec touch -h -d '2026-01-02 03:04:05.123456789' {} +
touch -d '1969-12-31 00:00:00.5' pipe; touch -h -d @77 abs
`;

it.each([[undefined], [{ hostBase: 2 ** 30, size: 2 ** 30 }]])(
  'the kernel shows what GNU tar extracts, with the ids %j',
  async (map) => {
    await mkdir(join(directory, 'source'));
    sh(`cd source; ${TREE}`);
    sh("tar -C source --format=posix --xattrs --xattrs-include='*' -cf packed.tar .");
    await both(await readFile(join(directory, 'packed.tar')), 'l', map);
    sh(fsck('l.erofs'));
    const mounted = sh(`mkdir m; mount -t erofs -o ro,loop l.erofs m; ${describeTree('m')}`);
    expect(mounted).toContain('size4097');
    expect(mounted).toContain('system.posix_acl_default=0x');
    expect(mounted).toBe(sh(describeTree('l')));
  },
);

it('fsck.erofs finds no fault in any tree, and the kernel reads each whole', async () => {
  const trees = fc.sample(grownTree, { numRuns: 25, seed: Number(process.env.SKYCAP_SEED ?? 1) });
  const bodyOf = new Map<Grown, number>();
  for (const [index, tree] of trees.entries()) {
    const sink = await openErofsSink(join(directory, `i${index}`), Infinity);
    const sizes = new Map<string, number>();
    for (const one of tree) {
      const { entry, body } = one;
      const size = entry.type === 'link' ? (sizes.get(entry.linkPath) ?? 0) : body.length;
      sizes.set(entry.path, size);
      bodyOf.set(one, size);
      const parts = body.length === 0 ? [] : [body];
      await sink.put(entry, async () => parts.shift());
    }
    await sink.finish();
  }
  const said =
    sh(`mkdir m; for i in $(seq 0 ${trees.length - 1}); do ${fsck('i$i')}; mount -t erofs -o ro,loop i$i m
    (cd m; echo $(find . -printf x | wc -c) $(find . -type f -exec cat {} + | wc -c)); umount m; done`);
  const wanted = trees.map(
    (tree) => `${tree.length} ${tree.reduce((sum, one) => sum + (bodyOf.get(one) ?? 0), 0)}`,
  );
  expect(said.trim().split('\n')).toEqual(wanted);
});

it('fsck.erofs is a judge: one wrong byte of a directory or of the superblock, and it says so', async () => {
  const image = join(directory, 'i');
  await unpackLayer(inPieces(tarOf([{ path: 'f', content: 'x' }])), await openErofsSink(image), {
    map: undefined,
    signal,
  });
  sh(fsck('i'));
  const bytes = await readFile(image);
  for (const at of [bytes.indexOf('...f') - 3 * 12 + 8, 1024 + 90]) {
    const wrong = Buffer.from(bytes);
    wrong[at] = (wrong[at] as number) ^ 1;
    await writeFile(image, wrong);
    expect(() => sh(fsck('i'))).toThrow();
  }
});

it('a full disk is said so and leaves nothing, and a try with room succeeds', async () => {
  await mkdir(join(directory, 'small'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m', 'tmpfs', 'small'], { cwd: directory });
  try {
    const transfer = { ...recordingTransfer(), form: 'erofs' } as const;
    await using store = await openStore({ directory: join(directory, 'small', 'store') });
    const files = { f: { content: Buffer.alloc(20_000_000, 'x') } };
    const platform = { os: 'linux', architecture: 'amd64' };
    const image = await makeImage(store, { platform, files, compression: 'gzip' });
    await expect(store.lowers(image, undefined, transfer)).rejects.toMatchObject({ code: 'DISK_FULL' });
    expect(await readdir(join(directory, 'small/store/layers'))).toEqual([]);
    execFileSync('mount', ['-o', 'remount,size=40m', 'small'], { cwd: directory });
    expect(await store.lowers(image, undefined, transfer)).toHaveLength(1);
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  } finally {
    execFileSync('umount', ['small'], { cwd: directory });
  }
});

it('as layers of an overlay they hide, delete, copy up and run as folders do', async () => {
  const busybox = await readFile('/bin/busybox');
  const layers: readonly (readonly TarFile[])[] = [
    [
      { path: 'bin/sh', content: busybox, mode: 0o755 },
      { path: 'gone', content: 'x' },
      { path: 'kept/below', content: 'below' },
      { path: 'closed/below', content: 'x' },
      { path: 'replaced', content: 'x' },
      { path: 'etc/f', content: 'first' },
    ],
    [
      { path: '.wh.gone' },
      { path: 'closed/.wh..wh..opq' },
      { path: 'closed/above', content: 'above' },
      { path: 'replaced/now', content: 'a folder' },
      { path: 'kept/above', content: 'above' },
    ],
    [{ path: 'etc/f', content: 'second' }, { path: 'kept/.wh.above' }],
  ];
  for (const [index, files] of layers.entries()) await both(tarOf(files), `l${index}`);
  await writeFile(
    join(directory, 'try.sh'),
    `mkdir -p up w root; mount -t overlay -o "lowerdir=$1,upperdir=up,workdir=w" overlay root; cd root
     find . -type f | sort; cat etc/f; echo third > etc/f; cat etc/f; rm kept/below; find kept
     chroot . /bin/sh -c 'echo ran'; cat bin/sh | sha256sum`,
  );
  const folders = sh('bash -eu try.sh l2:l1:l0; ');
  sh('rm -rf up w root');
  const mounted =
    sh(`mkdir m0 m1 m2; for i in 0 1 2; do ${fsck('l$i.erofs')}; mount -t erofs -o ro,loop l$i.erofs m$i; done
    bash -eu try.sh m2:m1:m0`);
  expect(mounted).toBe(folders);
  expect(mounted).toContain('ran');
  expect(mounted).not.toContain('closed/below');
});
