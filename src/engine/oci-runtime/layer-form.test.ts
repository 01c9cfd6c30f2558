import { describe, expect, it } from 'vitest';
import { type FormFacts, LayerForm, whyFolders } from './layer-form.ts';

const host: FormFacts = {
  uid: 0,
  uidMap: '         0          0 4294967295\n',
  fileSystems: 'nodev\tproc\n\text4\n\terofs\n',
  loadable: false,
  store: { uid: 0, mode: 0o40700 },
};

describe('file-system images', () => {
  it.each<[string, Partial<FormFacts>, string | undefined]>([
    ['for root on a kernel with EROFS', {}, undefined],
    ['where the kernel can load it', { fileSystems: '\text4\n', loadable: true }, undefined],
    ['not without EROFS', { fileSystems: 'nodev\terofs-like\n' }, 'no EROFS'],
    ['not for another user', { uid: 1000 }, 'only root'],
    ['not in a user namespace', { uidMap: '0 1000 1\n' }, 'only root'],
    ['not from a store that is not root’s', { store: { uid: 1000, mode: 0o40700 } }, 'others than root'],
    ['not from a store that others can read', { store: { uid: 0, mode: 0o40750 } }, 'others than root'],
    ['not from a store that others can enter', { store: { uid: 0, mode: 0o40701 } }, 'others than root'],
  ])('%s', (_case, changed, why) => {
    const found = whyFolders({ ...host, ...changed });
    if (why === undefined) expect(found).toBeUndefined();
    else expect(found).toContain(why);
  });

  it('are asked for until a mount is refused, and the host is looked at once', () => {
    let looks = 0;
    const layers = new LayerForm(() => {
      looks++;
      return undefined;
    });
    expect([layers.form, layers.form, looks]).toEqual(['erofs', 'erofs', 1]);
    layers.refuse('refused');
    expect([layers.form, layers.because, looks]).toEqual(['folder', 'refused', 1]);
  });
});
