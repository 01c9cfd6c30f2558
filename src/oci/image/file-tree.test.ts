import { describe, expect, it } from 'vitest';
import { fromTar, type Made, made, merged, treeOf } from '../../testkit/images/index.ts';
import { fc } from '../../testkit/property.ts';
import { packFiles, type VirtualFile } from '../layer/index.ts';
import { digestOf } from '../names/index.ts';
import { diffTrees, readTree } from './index.ts';

const { signal } = new AbortController();

// Few names, so that layers meet: files over folders, folders over links, deletions of what is there and what is not.
const name = fc.constantFrom('a', 'b', 'c');
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));
const file: fc.Arbitrary<VirtualFile> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ path, content: fc.constantFrom('x', 'yy', '') }) },
  fc.record({ path, type: fc.constant('directory' as const), mode: fc.constantFrom(0o755, 0o700) }),
  fc.record({ path, type: fc.constant('symlink' as const), linkPath: fc.constantFrom('/a', 'b') }),
  fc.record({ path }).map((whiteout) => ({ path: whiteout.path.replace(/[^/]*$/, (leaf) => `.wh.${leaf}`) })),
  fc.record({ path }).map((opaque) => ({ path: `${opaque.path}/.wh..wh..opq` })),
);

/** Of random entries those that make a sound layer: nothing twice, nothing below what is no folder. */
function sound(files: readonly VirtualFile[]): readonly VirtualFile[] {
  const kinds = new Map<string, string>();
  return files.filter((item) => {
    const parts = item.path.split('/');
    const parents = parts.slice(0, -1).map((_, at) => parts.slice(0, at + 1).join('/'));
    const kind = item.type ?? 'file';
    if (kinds.has(item.path) || parents.some((parent) => (kinds.get(parent) ?? 'directory') !== 'directory'))
      return false;
    for (const parent of parents) kinds.set(parent, 'directory');
    kinds.set(item.path, kind);
    return true;
  });
}

const layerFiles = fc.array(file, { maxLength: 6 }).map(sound);

/** Every second layer links a file of the layers below, as a hard link that crosses layers. */
async function stack(layers: readonly (readonly VirtualFile[])[]): Promise<readonly Made[]> {
  const stacked: Made[] = [];
  for (const files of layers) {
    const tree = await treeOf(stacked);
    const target = [...tree].find(([at, node]) => at !== 'link' && node.entry.type === 'file')?.[0];
    const taken = new Set(
      files.flatMap((item) => [
        item.path,
        item.path.replace('.wh.', ''),
        ...item.path.split('/').map((_, at, all) => all.slice(0, at).join('/')),
      ]),
    );
    const isFree =
      target !== undefined &&
      ![...taken].some(
        (other) => other === target || target.startsWith(`${other}/`) || other.startsWith(`${target}/`),
      );
    const link =
      isFree && stacked.length % 2 === 1 ? [{ path: 'link', type: 'link' as const, linkPath: target }] : [];
    stacked.push(await made([...files, ...link]));
  }
  return stacked;
}

describe('layers as trees', () => {
  it('flattened, appended and flattened again: the tree stays', async () => {
    let linked = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(layerFiles, { minLength: 1, maxLength: 4 }), async (files) => {
        const layers = await stack(files);
        const whole = await treeOf(layers);
        linked += [...whole.keys()].includes('link') ? 1 : 0;
        const flat = await merged(layers);
        expect(diffTrees(whole, await treeOf([flat]), { times: true })).toEqual([]);
        expect((await merged([flat])).layer.diffId).toBe(flat.layer.diffId);
      }),
      { numRuns: 150 },
    );
    expect(linked).toBeGreaterThan(5);
  });

  it('squashed above any layer: the tree stays', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(layerFiles, { minLength: 2, maxLength: 4 }), fc.nat(3), async (files, at) => {
        const layers = await Promise.all(files.map(made));
        const keep = at % layers.length;
        const squashed = [...layers.slice(0, keep), await merged(layers.slice(keep), keep > 0)];
        expect(diffTrees(await treeOf(layers), await treeOf(squashed), { times: true })).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it('tells what differs of each file', async () => {
    const one = [
      await made([
        { path: 'same', content: '1' },
        { path: 'f', content: 'old' },
        { path: 'gone' },
        { path: 'l', type: 'symlink', linkPath: 'x' },
        { path: 'm' },
      ]),
    ];
    const two = [
      await made([
        { path: 'same', content: '1' },
        { path: 'f', content: 'newer' },
        { path: 'here' },
        { path: 'l', type: 'symlink', linkPath: 'y' },
        { path: 'm', mode: 0o600, uid: 5 },
      ]),
    ];
    expect(diffTrees(await treeOf(one), await treeOf(two))).toEqual([
      { path: '/f', kind: 'changed', type: 'file', aspects: ['content'], before: 3, after: 5 },
      { path: '/gone', kind: 'removed', type: 'file', aspects: [], before: 0 },
      { path: '/here', kind: 'added', type: 'file', aspects: [], after: 0 },
      { path: '/l', kind: 'changed', type: 'symlink', aspects: ['target'] },
      { path: '/m', kind: 'changed', type: 'file', aspects: ['mode', 'owner'], before: 0, after: 0 },
    ]);
  });

  it('has nothing of what a layer deletes, and no sign of the deletion', async () => {
    const layers = [
      await made([{ path: 'd/f' }, { path: 'd/g' }, { path: 'e/f' }]),
      await made([{ path: 'd/.wh.f' }, { path: '.wh.e' }, { path: 'h/.wh.none' }]),
    ];
    expect([...(await treeOf(layers)).keys()].filter((path) => path !== '')).toEqual(['d', 'd/g', 'h']);
  });

  it('keeps the attributes of a folder that a layer only goes through', async () => {
    const layers = [
      await made([{ path: 'tmp', type: 'directory', mode: 0o1777 }]),
      await fromTar(Buffer.concat([...packFiles([{ path: 'tmp/x' }])].slice(1))),
    ];
    expect((await treeOf(layers)).get('tmp')?.entry.mode).toBe(0o1777);
  });

  it('refuses bytes that are not what the config names', async () => {
    const one = await made([{ path: 'f' }]);
    const other = await made([{ path: 'g' }]);
    const read = readTree([{ ...one.input, open: other.input.open }], { signal });
    await expect(read).rejects.toMatchObject({ code: 'OCI_LAYER_DIFFID' });
  });

  it('takes layers that the config names by sha512', async () => {
    const tar = Buffer.concat([...packFiles([{ path: 'f', content: 'x' }])]);
    const { input } = await fromTar(tar);
    const long = { ...input, diffId: digestOf(tar, 'sha512') };
    expect((await readTree([long], { signal, hash: true })).get('f')?.content).toBe(digestOf('x').slice(7));
    const wrong = readTree([{ ...input, diffId: digestOf('other', 'sha512') }], { signal });
    await expect(wrong).rejects.toMatchObject({ code: 'OCI_LAYER_DIFFID' });
  });

  it('does not squash a layer away from under a hard link', async () => {
    const layers = [
      await made([{ path: 'f', content: 'x' }]),
      await made([{ path: 'g', type: 'link', linkPath: 'f' }]),
    ];
    await expect(merged(layers.slice(1), true)).rejects.toMatchObject({ code: 'OCI_EDIT_INVALID' });
    expect((await treeOf([await merged(layers)])).get('g')?.content).toBe(digestOf('x').slice(7));
  });
});
