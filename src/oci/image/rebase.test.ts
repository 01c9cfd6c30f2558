import { describe, expect, it } from 'vitest';
import { codeOf, imageOf, type Made, made, treeOf } from '../../testkit/images/index.ts';
import {
  annotate,
  appendLayers,
  baseAnnotations,
  baseConflicts,
  encodeImage,
  type ImageValue,
  layersOf,
  type NewBase,
  rebase,
  rebaseProblems,
  withRunConfig,
} from './index.ts';

describe('rebase', () => {
  async function world() {
    const [base1, base2, own] = [
      await made([{ path: 'lib/a', content: '1' }]),
      await made([{ path: 'lib/a', content: '2' }, { path: 'new' }]),
      await made([{ path: 'app/run' }]),
    ];
    const old = imageOf([base1.layer]);
    const patched = imageOf([base2.layer], {
      variant: 'v2',
      history: [{ created_by: 'empty', empty_layer: true }, { created_by: 'patched' }],
    });
    const base = (image: ImageValue): NewBase => ({
      image,
      name: 'registry.test/base:1',
      digest: encodeImage(image).manifest.descriptor.digest,
    });
    const record = (image: ImageValue, on: ImageValue): ImageValue =>
      annotate(image, { set: baseAnnotations(base(on)) });
    const app = record(appendLayers(old, [own.layer]), old);
    const same = imageOf([base2.layer]);
    return { base1, base2, own, old, patched, same, app, base, record };
  }

  it('exchanges the base and nothing else, and can be done again', async () => {
    const { base2, own, old, same, app, base } = await world();
    const moved = rebase(app, { newBase: base(same), conflicts: [] });
    expect(layersOf(moved)).toEqual([base2.layer, own.layer]);
    expect(moved.config.run).toEqual(app.config.run);
    expect(moved.manifest.annotations).toMatchObject({
      by: 'someone',
      'org.opencontainers.image.base.digest': base(same).digest,
    });
    expect(moved.config.raw.history).toHaveLength(2);
    const back = rebase(moved, { newBase: base(old), conflicts: [] });
    expect(encodeImage(back).manifest.descriptor).toEqual(encodeImage(app).manifest.descriptor);
    expect(
      encodeImage(rebase(moved, { newBase: base(same), conflicts: [] })).manifest.descriptor.digest,
    ).toBe(encodeImage(moved).manifest.descriptor.digest);
  });

  it('keeps the numbers of history and layers right, steps without a layer included', async () => {
    const { own, old, same, base, record } = await world();
    const steps = [
      { created_by: 'b' },
      { created_by: 'env', empty_layer: true },
      { created_by: 'own' },
      { created_by: 'cmd', empty_layer: true },
    ];
    const app = record(imageOf([...layersOf(old), own.layer], { history: steps }), old);
    const moved = rebase(app, { newBase: base(same), conflicts: [] });
    expect(moved.config.raw.history).toMatchObject([
      { created_by: 'step 1' },
      { created_by: 'own' },
      { created_by: 'cmd' },
    ]);
    const silent = record(imageOf([...layersOf(old), own.layer], { history: undefined }), old);
    expect(rebase(silent, { newBase: base(same), conflicts: [] }).config.raw.history).toHaveLength(2);
  });

  const conditions = async (
    app: ImageValue,
    newBase: NewBase,
    more: object = {},
  ): Promise<readonly string[]> =>
    rebaseProblems(app, { newBase, conflicts: [], ...more }).map(({ condition }) => condition);
  const labelled = (image: ImageValue, labels: Record<string, string>): ImageValue =>
    withRunConfig(image, { labels });

  it('wants to know where the base ends', async () => {
    const { own, old, same, app, base } = await world();
    const bare = appendLayers(old, [own.layer]);
    expect(await conditions(bare, base(same))).toEqual(['split']);
    expect(await conditions(bare, base(same), { oldBase: base(old) })).toEqual([]);
    expect(await conditions(app, base(same), { oldBase: base(appendLayers(old, [own.layer])) })).toContain(
      'split',
    );
    const forged = annotate(app, { set: { 'dev.skycap.base.layers': '2' } });
    expect(await conditions(forged, base(same))).toEqual(['split']);
    const half = annotate(app, { remove: ['dev.skycap.base.layers'] });
    expect(await conditions(half, base(same))).toEqual(['split']);
    expect(codeOf(() => rebase(bare, { newBase: base(same), conflicts: [] }))).toBe('OCI_REBASE_REFUSED');
  });

  it('wants the old base to be the image’s, by layers and by digest', async () => {
    const { own, old, same, app, base } = await world();
    expect(await conditions(appendLayers(old, [own.layer]), base(same), { oldBase: base(same) })).toEqual([
      'prefix',
    ]);
    const renamed = annotate(old, { set: { a: 'b' } });
    expect(await conditions(app, base(same), { oldBase: base(renamed) })).toEqual(['base-digest']);
  });

  it('wants one platform, variant included', async () => {
    const { patched, app, base } = await world();
    expect(await conditions(app, base(patched))).toEqual(['platform']);
  });

  it('wants one distribution, one stack with its mixins, and a run image of the list', async () => {
    const { same, app, base } = await world();
    const distro = (name: string, version = '12') => ({
      'io.buildpacks.base.distro.name': name,
      'io.buildpacks.base.distro.version': version,
    });
    expect(await conditions(labelled(app, distro('debian')), base(labelled(same, distro('debian'))))).toEqual(
      [],
    );
    expect(await conditions(labelled(app, distro('debian')), base(labelled(same, distro('alpine'))))).toEqual(
      ['distribution'],
    );
    expect(
      await conditions(labelled(app, distro('debian', '')), base(labelled(same, distro('debian', '13')))),
    ).toEqual([]);
    const stack = { 'io.buildpacks.stack.id': 's', 'io.buildpacks.stack.mixins': '["m"]' };
    expect(await conditions(labelled(app, stack), base(same))).toEqual(['stack', 'stack']);
    expect(
      await conditions(
        labelled(app, stack),
        base(labelled(same, { ...stack, 'io.buildpacks.stack.mixins': '["m","n"]' })),
      ),
    ).toEqual([]);
    expect(await conditions(labelled(app, { 'io.buildpacks.rebasable': 'false' }), base(same))).toEqual([
      'rebasable',
    ]);
    const run = (image: string) => ({
      'io.buildpacks.lifecycle.metadata': JSON.stringify({
        runImage: { topLayer: app.config.diffIds[0], image },
      }),
    });
    expect(await conditions(labelled(app, run('other/image')), base(same))).toEqual(['run-image']);
    const moved = rebase(labelled(app, run('registry.test/base')), { newBase: base(same), conflicts: [] });
    expect(JSON.parse(moved.config.run.labels['io.buildpacks.lifecycle.metadata'] ?? '')).toMatchObject({
      runImage: { topLayer: same.config.diffIds[0] },
    });
  });

  it('wants the image’s own files to leave those of both bases alone', async () => {
    const { base1, base2, own, app, same, base } = await world();
    const trees = { old: await treeOf([base1]), now: await treeOf([base2]) };
    const conflicts = async (layer: Made) => baseConflicts(await treeOf([layer], true), trees.old, trees.now);
    expect(await conflicts(own)).toEqual([]);
    expect(await conflicts(await made([{ path: 'lib/a' }]))).toEqual(['it replaces /lib/a of the base']);
    expect(await conflicts(await made([{ path: 'lib/.wh.a' }]))).toEqual(['it deletes /lib/a of the base']);
    expect(await conflicts(await made([{ path: 'lib/.wh..wh..opq' }]))).toEqual([
      'it replaces the folder /lib of the base',
    ]);
    expect(await conflicts(await made([{ path: 'new/x' }]))).toEqual(['it would hide /new of the new base']);
    expect(await conflicts(await made([{ path: 'lib', type: 'directory', mode: 0o700 }]))).toHaveLength(1);
    expect(
      codeOf(() => rebase(app, { newBase: base(same), conflicts: ['it deletes /lib/a of the base'] })),
    ).toBe('OCI_REBASE_REFUSED');
  });
});
