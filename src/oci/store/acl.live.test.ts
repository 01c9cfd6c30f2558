import { execFileSync } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { recordingTransfer } from '../../testkit/images/index.ts';
import { buildImage } from '../image/index.ts';
import type { IdMap, Lower, LowerForm } from '../port.ts';
import { openStore } from './index.ts';

const platform = { os: 'linux', architecture: 'amd64' };
const transfer = recordingTransfer();
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-acl-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const sh = (script: string): string =>
  execFileSync('bash', ['--norc', '-euc', script], { cwd: directory, encoding: 'utf8' });

const TREE = `
mkdir source; cd source; echo 1 > named; chmod 640 named
setfacl -m u:7:rw,u:70000:r,u:4000000:rwx,g:100000:rx named; ln named again
echo 2 > minimal; echo 3 > mask; setfacl -m m::r mask; echo 4 > setuid; chmod 4755 setuid; setfacl -m u:9:rwx setuid
mkdir d; setfacl -m u:8:rwx d; setfacl -d -m u:70001:rwx,g:5:r d; echo x > d/inherits; mkdir d/too
mkdir e; setfacl -d -m u::rwx,g::rx,o::- e; mkfifo pipe; setfacl -m u:7:r pipe; mknod null c 1 3; setfacl -m u:70002:rw null
cd ..; tar -C source --format=posix --xattrs --xattrs-include='*' -cf layer.tar .`;
const SHOW = 'find . | LC_ALL=C sort | getfacl --numeric --absolute-names -';

/** What getfacl says, less what a map adds to the ids. */
function shown(folder: string, map: IdMap | undefined): string {
  const plain = (id: string): string => String(Number(id) - (map?.hostBase ?? 0));
  return sh(`cd ${folder}; ${SHOW}`).replace(
    /^(# (?:owner|group): |(?:default:)?(?:user|group):)(\d+)/gm,
    (_all, before: string, id: string) => `${before}${plain(id)}`,
  );
}

function inFolder({ kind, path }: Lower, look: (folder: string) => void): void {
  if (kind === 'folder') {
    look(path);
    return;
  }
  sh(`mkdir m; mount -t erofs -o ro,loop ${path} m`);
  try {
    look('m');
  } finally {
    sh('umount m; rmdir m');
  }
}

it.each<[LowerForm, IdMap | undefined]>([
  ['folder', undefined],
  ['folder', { hostBase: 2 ** 30, size: 2 ** 30 }],
  ['erofs', undefined],
  ['erofs', { hostBase: 2 ** 30, size: 2 ** 30 }],
])('a layer with access lists is what getfacl saw before, and fsck agrees: %s, ids %j', async (form, map) => {
  sh(TREE);
  const wanted = shown('source', undefined);
  expect(wanted).toContain('user:4000000:rwx');
  // The lists that this folder says for new files are not the image's.
  sh('mkdir inherits; setfacl -d -m u:70009:rwx inherits');
  await using store = await openStore({ directory: join(directory, 'inherits/store') });
  const layers = [{ tar: createReadStream(join(directory, 'layer.tar')) }];
  const image = await buildImage(
    store,
    { layers, config: {}, platform, reference: 'localhost/a:1' },
    transfer,
  );
  const [lower] = await store.lowers(image, map, { ...transfer, form });
  if (lower?.kind !== form) return expect.fail(`the layer is ${lower?.kind}`);
  inFolder(lower, (folder) => expect(shown(folder, map)).toBe(wanted));
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  if (form === 'erofs') return;
  for (const [change, name] of [
    ['setfacl -b mask', 'mask'],
    ['setfacl -m u:7:rw,u:70000:rw named', 'named'],
    ['setfacl -k e', 'e'],
    ['setfacl -m u:11:- minimal', 'minimal'],
  ] as const) {
    sh(`cd ${lower.path}; getfacl -Rn . > ${directory}/before; ${change}`);
    const messages = (await store.fsck({ repair: false, ...transfer })).map(({ message }) => message);
    expect([change, messages]).toEqual([
      change,
      [expect.stringMatching(new RegExp(`"(${name}|again)" has changed$`))],
    ]);
    sh(`cd ${lower.path}; setfacl --restore ${directory}/before`);
  }
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
});
