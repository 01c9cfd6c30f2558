import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordingTransfer, type TarFile, tarOf } from '../../testkit/images/index.ts';
import { digestOf } from '../names/index.ts';
import type { Lower } from '../port.ts';
import { openLayout } from './layout.ts';
import { lowerFinder } from './lower-file.ts';
import { Unpacker } from './unpacking.ts';

const map = { hostBase: 2 ** 30, size: 2 ** 30 };
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-entry-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const dir = (path: string): TarFile => ({ path, type: 'directory' });
const sym = (path: string, linkPath: string): TarFile => ({ path, type: 'symlink', linkPath });

/** What stands at these paths of the layers, lowest first: kind, owner, mode and content. */
async function found(
  layers: readonly (readonly TarFile[])[],
  paths: readonly string[],
  { form, ids }: { readonly form: Lower['kind']; readonly ids?: typeof map },
): Promise<readonly unknown[]> {
  const layout = await openLayout(join(directory, 'store'));
  const unpacker = new Unpacker(layout);
  const lowers: Lower[] = [];
  for (const files of layers) {
    const bytes = tarOf(files, { raw: true });
    const digest = digestOf(bytes);
    await writeFile(layout.blob(digest), bytes);
    const layer = {
      digest,
      diffId: digest,
      mediaType: 'application/vnd.oci.image.layer.v1.tar',
      size: bytes.length,
    };
    lowers.push((await unpacker.layer(layer, { map: ids, form }, recordingTransfer())) as Lower);
  }
  await unpacker.close();
  const finder = lowerFinder(lowers, ids);
  const all: unknown[] = [];
  for (const path of paths) {
    const file = await finder(path);
    if (file === undefined) {
      all.push(undefined);
      continue;
    }
    const { entry } = file;
    expect([file.path, entry.path]).toEqual([file.path, file.path]);
    const parts: Buffer[] = [];
    // Only a file's is asked for.
    if (entry.type === 'file') for await (const part of file.body()) parts.push(Buffer.from(part));
    const attributes = [...(entry.xattrs ?? [])].map(([name, value]) => `${name}=${value.toString('hex')}`);
    const owner = `${entry.uid}:${entry.gid}`;
    const body = Buffer.concat(parts).toString();
    all.push([file.path, entry.type, entry.mode.toString(8), owner, body, ...attributes].join(' '));
  }
  return all;
}

describe.skipIf(process.geteuid?.() !== 0).each(['folder', 'erofs'] as const)(
  'what stands at a path, %s',
  (form) => {
    it('is told as the image has it, whatever the ids are shifted by', async () => {
      // linux/capability.h: revision 2, effective, cap_net_raw.
      const capability = Buffer.from('0100000200200000000000000000000000000000', 'hex');
      const xattrs = new Map([
        ['security.capability', capability],
        ['user.a', Buffer.from('1')],
      ]);
      const layer: readonly TarFile[] = [
        { path: 'd/f', content: 'hello', uid: 7, gid: 8, mode: 0o4750 },
        { path: 'c', type: 'char', devMajor: 1, devMinor: 3, uid: 7 },
        { path: 'p', type: 'fifo', gid: 7 },
        { path: 'd/x', content: 'x', xattrs },
        sym('l', 'd/f'),
      ];
      for (const ids of [map, undefined]) {
        const [f, c, p, x, l, d] = await found([layer], ['d/f', 'c', 'p', 'd/x', 'l', 'd'], {
          form,
          ...(ids && { ids }),
        });
        expect(f).toBe('d/f file 4750 7:8 hello');
        expect(c).toBe('c char 644 7:0 ');
        expect(p).toBe('p fifo 644 0:7 ');
        expect(l).toBe('l symlink 777 0:0 ');
        expect(d).toBe('d directory 755 0:0 ');
        const revision = ids === undefined ? capability.toString('hex') : expect.anything();
        expect(String(x).split(' ').slice(0, 4)).toEqual(['d/x', 'file', '644', '0:0']);
        expect(String(x)).toContain('user.a=31');
        if (ids === undefined) expect(String(x)).toContain(`security.capability=${String(revision)}`);
        else expect(String(x)).toMatch(/security\.capability=01000003.{32}00000000/);
      }
    });

    it('is found by names of any bytes', async () => {
      const names = ['a\\nb', 'a\nb', '-x', '@list', '\xff', "it's", '*', ' '];
      const layer = names.map((path): TarFile => ({ path: `d/${path}`, content: path }));
      const paths = names.map((name) => `d/${name}`);
      const all = (await found([layer], paths, { form })).map((one) => String(one).split(' file ')[0]);
      expect(all).toEqual(paths);
    });

    it('is looked for as a container would, and not outside', async () => {
      const layer = [
        { path: 'd/f', content: 'x' },
        { path: 'f', content: 'top' },
        sym('up', '../../d'),
        sym('d/back', '..'),
        sym('absolute', '/d'),
        sym('d/sideways', './/../d/./f'),
        sym('round', 'about'),
        sym('about', 'round'),
        sym('nowhere', 'gone/f'),
        sym('file', 'f'),
      ];
      const paths = ['up/f', 'd/back/f', 'absolute/f', '/d//./f', '../../f', 'd/../f', 'd/back/d/back/f'];
      const said = (await found([layer], paths, { form })).map((one) => String(one).split(' ')[0]);
      expect(said).toEqual(['d/f', 'f', 'd/f', 'd/f', 'f', 'f', 'f']);
      const none = ['round/f', 'nowhere/f', 'file/f', 'f/f', 'd/f/', 'gone', 'd/gone', '', '.', 'd/..', 'd/'];
      expect(await found([layer], none, { form })).toEqual(none.map(() => undefined));
    });

    it('may be forty links away, and not forty-one', async () => {
      const links = Array.from({ length: 41 }, (_, at) => sym(`l${at}`, at === 0 ? 'd' : `l${at - 1}`));
      const layer = [{ path: 'd/f', content: 'x' }, ...links];
      const [near, far] = await found([layer], ['l39/f', 'l40/f'], { form });
      expect([near, far]).toEqual(['d/f file 644 0:0 x', undefined]);
    });

    it('is the topmost, unless a deletion, a file or an opaque folder hides it', async () => {
      const layers = [
        [
          { path: 'a/f', content: 'lowest' },
          { path: 'b/f', content: 'lowest' },
          { path: 'c/f', content: 'lowest' },
          { path: 'd/f', content: 'lowest' },
        ],
        [
          { path: 'a/f', content: 'upper' },
          { path: 'b/.wh.f' },
          { path: '.wh.c' },
          { path: 'd/.wh..wh..opq' },
        ],
        [dir('a'), dir('b'), dir('d'), { path: 'd/g', content: 'new' }],
      ];
      const paths = ['a/f', 'b/f', 'c/f', 'c', 'd/f', 'd/g', 'd'];
      expect(await found(layers, paths, { form })).toEqual([
        'a/f file 644 0:0 upper',
        ...[undefined, undefined, undefined, undefined],
        'd/g file 644 0:0 new',
        'd directory 755 0:0 ',
      ]);
    });

    it('is not below an opaque root', async () => {
      const layers = [[{ path: 'f' }], [{ path: '.wh..wh..opq' }, { path: 'g' }], [{ path: 'h' }]];
      const said = (await found(layers, ['f', 'g', 'h'], { form })).map((one) => String(one).split(' ')[0]);
      expect(said).toEqual(['undefined', 'g', 'h']);
    });
  },
);
