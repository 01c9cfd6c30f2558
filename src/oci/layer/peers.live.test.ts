import { execFileSync } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inPieces, recordingTransfer, tarOf } from '../../testkit/images/index.ts';
import { linesOf, scanTree } from '../../testkit/layers/index.ts';
import { buildImage, pinnedFromStore } from '../image/index.ts';
import type { Lower } from '../port.ts';
import { openStore } from '../store/index.ts';
import { GnuTarSink, NodeSink, packFolder, unpackLayer } from './index.ts';

// Trees that root makes with coreutils, setfattr and mknod; packed by a peer and unpacked by us, and the other way.
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-peers-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const env = { PATH: process.env.PATH, LC_ALL: 'C', HOME: '/nonexistent' };
function sh(script: string): string {
  return execFileSync('bash', ['--norc', '-euc', script], { cwd: directory, encoding: 'latin1', env });
}

/** Whole seconds, for peers that keep no more. */
const TREE = String.raw`
mkdir -p tree; cd tree
mkdir -p a/deep case Case; echo 1 > case/readme; echo 2 > case/README; echo 3 > Case/readme
echo hello > a/f; ln a/f a/hard; ln a/f hard; ln -s ../a/f a/soft; ln a/soft softhard; ln -s /etc/shadow abs
mknod dev c 1 3; mknod blk b 7 1048575; mkfifo pipe
truncate -s 3000000 hole; printf data | dd of=hole bs=1 seek=1500000 conv=notrunc status=none; truncate -s 5000 empty-hole
chown 2097152:2097153 hole; chown 4294967294:4294967294 empty-hole; chown -h 12:34 abs; chown 12:34 a
chmod 6751 a/f; chmod 1777 a/deep; chmod 0 a/hard
deep=$(printf 'd%.0s' $(seq 200)); (for i in $(seq 18); do mkdir "$deep"; cd "$deep"; done; echo far > end; ln -s "$(printf 't%.0s' $(seq 4000))" far-link)
printf x > "$(printf 'n%.0s' $(seq 255))"; printf x > "$(printf 'caf\351 \n\t\\ \x27')"
setfattr -n user.bin -v 0x00ff0a3d00 a/deep; setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 case/readme
cd ..; find tree -depth -exec touch -h -d '2001-02-03 04:05:06' {} +
`;
const SUBSECOND = `find tree -depth -exec touch -h -d '2001-02-03 04:05:06.123456' {} +; touch -d '1969-12-31 23:59:58.25' tree/pipe`;

const lines = (folder: string): readonly string[] => linesOf(scanTree(join(directory, folder)));

async function unpackInto(bytes: AsyncIterable<Uint8Array>, folder: string, own = false): Promise<void> {
  const path = join(directory, folder);
  await mkdir(path, { recursive: true });
  const signal = new AbortController().signal;
  await unpackLayer(bytes, own ? new NodeSink(path) : new GnuTarSink(path), { map: undefined, signal });
}

describe('GNU tar', () => {
  it.each([
    ['--format=posix', false],
    ['--format=posix --sparse --sparse-version=0.0', false],
    ['--format=posix --sparse --sparse-version=0.1', false],
    ['--format=posix --sparse --sparse-version=1.0', false],
    ['--format=posix --sparse --sparse-version=1.0', true],
  ])('L26 what it packs with %s comes out as it was (our own writer: %s)', async (how, own) => {
    sh(`${TREE}\n${SUBSECOND}\ntar -C tree ${how} --xattrs --xattrs-include='*' -cf packed.tar .`);
    await unpackInto(createReadStream(join(directory, 'packed.tar')), 'out', own);
    const round = (list: readonly string[]): readonly string[] =>
      own ? list.map((line) => line.replace(/"(-?\d{13,15})\d{4}"/, '"$1"')) : list;
    expect(round(lines('out'))).toEqual(round(lines('tree')));
  });

  it('L26 unpacks what we pack as it was', async () => {
    sh(TREE);
    await writeFile(join(directory, 'packed.tar'), packFolder(join(directory, 'tree')));
    sh("mkdir out; tar -C out -xpf packed.tar --numeric-owner --same-owner --xattrs --xattrs-include='*'");
    expect(lines('out')).toEqual(lines('tree'));
  });
});

it('L26 Docker loads what we pack as it was, and we unpack what it saves', async () => {
  sh(TREE);
  // Docker keeps capabilities and no other attributes.
  sh('setfattr -x user.bin tree/a/deep');
  await writeFile(join(directory, 'packed.tar'), packFolder(join(directory, 'tree')));
  const tag = `skycap-peers-${process.pid}`;
  try {
    sh(
      `docker import packed.tar ${tag} >/dev/null; docker save ${tag} | tar -xf - --wildcards '*/layer.tar'; mv */layer.tar saved.tar`,
    );
    await unpackInto(createReadStream(join(directory, 'saved.tar')), 'out');
    expect(lines('out')).toEqual(lines('tree'));
  } finally {
    sh(`docker rmi -f ${tag} >/dev/null 2>&1 || true`);
  }
});

it('L14 L21 L22 an image that umoci changed is what umoci unpacks', async () => {
  sh(`${TREE}
umoci init --layout layout; umoci new --image layout:1; umoci unpack --image layout:1 bundle >/dev/null 2>&1
cp -a tree/. bundle/rootfs/; umoci repack --image layout:1 bundle >/dev/null 2>&1; rm -rf bundle
umoci unpack --image layout:1 bundle >/dev/null 2>&1; cd bundle/rootfs
rm a/f abs; rm -r case; mkdir case; echo new > case/only; ln hard hard2; ln -s hard soft2; rm -r Case; echo file > Case; mknod new c 5 1
find . -newermt 2002-01-01 -exec touch -h -d '2003-01-01' {} +
cd ../..; umoci repack --image layout:1 bundle >/dev/null 2>&1; rm -rf bundle; umoci unpack --image layout:1 bundle >/dev/null 2>&1`);
  // The store is such a layout itself.
  await using store = await openStore({ directory: join(directory, 'store') });
  const transfer = recordingTransfer();
  sh('skopeo copy -q oci:layout:1 oci:store:localhost/peers:1');
  const image = await pinnedFromStore(store, 'localhost/peers:1', {
    os: 'linux',
    architecture: hostArchitecture(),
  });
  if (image === undefined) return expect.fail('the image is not in the store');
  const lowers = await store.lowers(image, undefined, transfer);
  expect(lowers.length).toBeGreaterThanOrEqual(2);
  expectMerged(lowers);
});

/** What a container sees is what umoci has unpacked. */
function expectMerged(lowers: readonly Lower[]): void {
  sh(
    `mkdir merged; mount -t overlay -o 'ro,lowerdir=${lowers
      .map((lower) => lower.path)
      .toReversed()
      .join(':')}' none merged`,
  );
  try {
    // A directory whose content changed has the time of the change with one and of its entry with the other.
    const still = (list: readonly string[]): readonly string[] =>
      list.filter((line) => !line.includes('"dir"'));
    expect(still(lines('merged'))).toEqual(still(lines('bundle/rootfs')));
  } finally {
    sh('umount merged');
  }
}

it('L26 L14 L22 umoci unpacks what we pack, with links, opaque folders and deletions of links across layers', async () => {
  sh(TREE);
  const mtime = { seconds: 981_173_045, nanos: 0 };
  const above = tarOf([
    { path: 'across', type: 'link', linkPath: 'case/readme', mtime },
    { path: 'a', type: 'directory', uid: 12, gid: 34 },
    { path: 'a/deep', type: 'directory', mode: 0o1777 },
    { path: 'a/deep/new', content: 'new', xattrs: new Map([['user.bin', Buffer.from([0, 255, 10])]]) },
    { path: '.wh.abs' },
    { path: 'a/.wh.soft' },
    { path: '.wh.softhard' },
    { path: 'Case', type: 'directory' },
    { path: 'Case/.wh..wh..opq' },
    { path: 'Case/new', content: 'new' },
    { path: 'case', type: 'directory' },
    { path: 'case/.wh.README' },
    { path: 'pipe', type: 'symlink', linkPath: 'hard' },
  ]);
  await using store = await openStore({ directory: join(directory, 'store') });
  const transfer = recordingTransfer();
  const image = await buildImage(
    store,
    {
      layers: [{ folder: join(directory, 'tree') }, { tar: inPieces(above) }],
      config: {},
      platform: { os: 'linux', architecture: hostArchitecture() },
      reference: 'localhost/peers:1',
      compression: 'zstd',
    },
    transfer,
  );
  // umoci 0.4 reads no zstd, skopeo packs it anew.
  sh('skopeo copy -q --dest-compress-format gzip --dest-compress oci:store:localhost/peers:1 oci:layout:1');
  sh('umoci unpack --image layout:1 bundle >/dev/null 2>&1');
  expectMerged(await store.lowers(image, undefined, transfer));
});

function hostArchitecture(): string {
  return process.arch === 'x64' ? 'amd64' : process.arch;
}

describe('L1 layers for lazy pulling are ordinary layers', () => {
  /** A gzip member for each piece, a table of contents and a footer behind the archive, as eStargz has them. */
  const eStargz = (tar: Buffer): Buffer => {
    const footer = Buffer.from('1f8b08040000000000ff1a0053471600', 'hex');
    const empty = Buffer.concat([
      footer,
      Buffer.from('0000000000000000STARGZ'),
      Buffer.from('010000ffff', 'hex'),
      Buffer.alloc(8),
    ]);
    const parts = Array.from({ length: Math.ceil(tar.length / 10_240) }, (_, at) =>
      tar.subarray(at * 10_240, (at + 1) * 10_240),
    );
    return Buffer.concat([...parts.map((part) => gzipSync(part)), empty]);
  };
  /** A frame for each piece, a manifest in a skippable frame and a footer in another, as zstd:chunked has them. */
  const chunked = (tar: Buffer): Buffer => {
    const skippable = (body: Buffer): Buffer => {
      const head = Buffer.alloc(8);
      head.writeUInt32LE(0x184d2a50, 0);
      head.writeUInt32LE(body.length, 4);
      return Buffer.concat([head, body]);
    };
    const parts = Array.from({ length: Math.ceil(tar.length / 10_240) }, (_, at) =>
      tar.subarray(at * 10_240, (at + 1) * 10_240),
    );
    const manifest = zstdCompressSync(Buffer.from('{"version":1,"entries":[]}'));
    return Buffer.concat([
      ...parts.map((part) => zstdCompressSync(part)),
      skippable(manifest),
      skippable(Buffer.alloc(64)),
    ]);
  };

  it.each([
    ['eStargz', eStargz],
    ['zstd:chunked', chunked],
  ])('L1 %s', async (_name, pack) => {
    sh(`${TREE}\ntar -C tree --format=posix --xattrs --xattrs-include='*' -cf packed.tar .`);
    const tar = await readFile(join(directory, 'packed.tar'));
    await unpackInto(inPieces(pack(tar), 50_000), 'out');
    expect(lines('out')).toEqual(lines('tree'));
  });
});
