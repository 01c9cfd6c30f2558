import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { entriesTo, type FormFacts, LayerForm, whyFolders } from './layer-form.ts';

const ROOT = { path: '/', uid: 0, mode: 0o40755 };
const STORE = { path: '/tmp/store', uid: 0, mode: 0o40700 };

/** The way to a store, with one entry more. */
function way(path: string, uid: number, mode: number): Partial<FormFacts> {
  return { store: [ROOT, { path, uid, mode }, STORE] };
}

/** The store itself. */
function store(uid: number, mode: number): Partial<FormFacts> {
  return { store: [ROOT, { ...STORE, uid, mode }] };
}

const host: FormFacts = {
  uid: 0,
  uidMap: '         0          0 4294967295\n',
  fileSystems: 'nodev\tproc\n\text4\n\terofs\n',
  loadable: false,
  store: [ROOT, STORE],
};

describe('file-system images', () => {
  it.each<[string, Partial<FormFacts>, string | undefined]>([
    ['for root on a kernel with EROFS', {}, undefined],
    ['where the kernel can load it', { fileSystems: '\text4\n', loadable: true }, undefined],
    ['not without EROFS', { fileSystems: 'nodev\terofs-like\n' }, 'no EROFS'],
    ['not for another user', { uid: 1000 }, 'only root'],
    ['not in a user namespace', { uidMap: '0 1000 1\n' }, 'only root'],
    ['not from a store that is not root’s', store(1000, 0o40700), 'others than root'],
    ['not from a store that others can read', store(0, 0o40750), 'others than root'],
    ['not from a store that others can enter', store(0, 0o40701), 'others than root'],
    ['not from a link', store(0, 0o120700), 'others than root'],
    ['from a store in a sticky folder of root’s', way('/tmp', 0, 0o41777), undefined],
    ['from a store behind a link of root’s', way('/link', 0, 0o120777), undefined],
    ['not from a store in another user’s folder', way('/home/me', 1000, 0o40755), '/home/me'],
    ['not from a store in another user’s sticky folder', way('/tmp', 1000, 0o41777), '/tmp'],
    ['not from a store in a folder that all may write to', way('/all', 0, 0o40777), '/all'],
    ['not from a store in a folder that a group may write to', way('/some', 0, 0o40775), '/some'],
    ['not from a store behind another user’s link', way('/link', 1000, 0o120777), '/link'],
  ])('%s', (_case, changed, why) => {
    const found = whyFolders({ ...host, ...changed });
    if (why === undefined) expect(found).toBeUndefined();
    else expect(found).toContain(why);
  });

  it('know every folder and link on the way to the store', () => {
    const base = realpathSync(mkdtempSync(join(tmpdir(), 'layer-form-')));
    try {
      mkdirSync(join(base, 'real/deep/store'), { recursive: true });
      chmodSync(join(base, 'real'), 0o777);
      symlinkSync('real/deep/../deep', join(base, 'relative'));
      symlinkSync(join(base, 'relative'), join(base, 'absolute'));
      const found = entriesTo(join(base, 'absolute/store'));
      expect(found[0]?.path).toBe('/');
      const below = found.filter(({ path }) => path.startsWith(`${base}/`));
      expect([...new Set(below.map(({ path }) => path.slice(base.length)))]).toEqual([
        '/absolute',
        '/relative',
        '/real',
        '/real/deep',
        '/real/deep/store',
      ]);
      const last = found.at(-1);
      expect([last?.path, last?.uid]).toEqual([join(base, 'real/deep/store'), process.getuid?.()]);
      expect(below.find(({ path }) => path === join(base, 'real'))?.mode).toBe(0o40777);
      symlinkSync('round', join(base, 'round'));
      expect(() => entriesTo(join(base, 'round'))).toThrow('ELOOP');
    } finally {
      rmSync(base, { recursive: true });
    }
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
