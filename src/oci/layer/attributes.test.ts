import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { directory, file, symlink } from '../../testkit/layers/index.ts';
import { keepXattrs, shiftCapability, shiftId, unshiftXattrs } from './attributes.ts';
import type { TarEntry } from './entry.ts';

const map = { hostBase: 1000, size: 100 };
const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const ACCESS = 'system.posix_acl_access';
const DEFAULT = 'system.posix_acl_default';
const CAPABILITY = 'security.capability';

describe('an owner', () => {
  it.each([
    [0, 0],
    [5, 5],
    [2 ** 32 - 2, 2 ** 32 - 2],
    [2 ** 32 - 1, 0],
    [2 ** 32, 0],
    [2 ** 32 + 7, 7],
    [-1, 0],
    [-2, 2 ** 32 - 2],
  ])('%d is %d without a map, as the kernel takes it', (id, kept) => {
    expect(shiftId(id, undefined, file('f'))).toBe(kept);
  });

  it('is shifted by a map, and refused outside of it', () => {
    expect([0, 99].map((id) => shiftId(id, map, file('f')))).toEqual([1000, 1099]);
    for (const id of [-1, 100]) {
      const shift = (): number => shiftId(id, map, file('a"b'));
      expect(shift).toThrow(`"a\\"b" belongs to ${id}, outside the 100 ids of a container`);
      expect(shift).toThrow(expect.objectContaining({ code: 'OCI_LAYER_UNSAFE' }));
    }
  });
});

describe('attributes are kept', () => {
  const value = Buffer.from('x');
  const kept = (entry: TarEntry, ...names: string[]): readonly string[] | undefined => {
    const found = keepXattrs({ ...entry, xattrs: new Map(names.map((name) => [name, value])) }, undefined);
    return found && [...found.keys()];
  };

  it('where they are of the user, and of a file or directory', () => {
    const names = [
      'user.a',
      'user.overlay',
      'user.overlay.opaque',
      'trusted.a',
      'security.selinux',
      'users.a',
    ];
    expect(kept(file('f'), ...names)).toEqual(['user.a', 'user.overlay']);
    expect(kept(directory('d'), ...names)).toEqual(['user.a', 'user.overlay']);
    for (const type of ['char', 'block', 'fifo', 'symlink'] as const)
      expect(kept(file('f', { type }), ...names)).toBeUndefined();
    expect(kept(file('f'))).toBeUndefined();
    expect(keepXattrs(file('f'), map)).toBeUndefined();
  });

  it('with their values as they are', () => {
    const xattrs = new Map([['user.a', Buffer.from([0, 255])]]);
    expect(keepXattrs(file('f', { xattrs }), map)).toEqual(xattrs);
  });

  it('a capability only of a file', () => {
    const xattrs = new Map([[CAPABILITY, hex('01000002 2000000000000000 0000000000000000')]]);
    expect(keepXattrs(file('f', { xattrs }), undefined)).toEqual(xattrs);
    expect(keepXattrs(directory('f', { xattrs }), undefined)).toBeUndefined();
  });
});

describe('a capability', () => {
  const body = '2000000000000000 0000000000000000';

  it.each<[string, string, string | undefined]>([
    ['of revision 2 is for root', `01000002 ${body}`, `01000003 ${body} e8030000`],
    ['of revision 3 keeps whose it is', `01000003 ${body} 05000000`, `01000003 ${body} ed030000`],
    ['of the last id', `00000003 ${body} 63000000`, `00000003 ${body} 4b040000`],
    ['of an id outside goes', `01000003 ${body} 64000000`, undefined],
    ['of revision 3 without an owner is for root', `01000003 ${body}`, `01000003 ${body} e8030000`],
    [
      'of revision 2 with something behind it is for root',
      `01000002 ${body} 05000000`,
      `01000003 ${body} e8030000`,
    ],
    ['of revision 1 goes', `01000001 ${body}`, undefined],
    ['of revision 4 goes', `01000004 ${body}`, undefined],
    ['that is too short goes', `01000002 ${body}`.slice(0, -2), undefined],
  ])('%s', (_what, before, after) => {
    expect(shiftCapability(hex(before), map)?.toString('hex')).toBe(after?.replaceAll(' ', ''));
  });

  it('stays as it is without a map, where it is one', () => {
    for (const revision of ['02', '03'])
      expect(shiftCapability(hex(`010000${revision} ${body}`), undefined)).toEqual(
        hex(`010000${revision} ${body}`),
      );
    expect(shiftCapability(hex(`01000001 ${body}`), undefined)).toBeUndefined();
    expect(shiftCapability(Buffer.alloc(19), undefined)).toBeUndefined();
  });
});

describe('an access control list', () => {
  /** The owner, a user, the group, a group, the mask and the others. */
  const list = (user: string, group: string): string =>
    `02000000 01000600ffffffff 02000700${user} 04000400ffffffff 08000500${group} 10000700ffffffff 20000000ffffffff`;
  const plain = list('05000000', '06000000');
  const shifted = list('ed030000', 'ee030000');
  const shift = (
    value: string,
    entry: TarEntry = file('f', { mode: 0o670 }),
    name = ACCESS,
  ): string | undefined =>
    keepXattrs({ ...entry, xattrs: new Map([[name, hex(value)]]) }, map)
      ?.get(name)
      ?.toString('hex');

  it('has shifted ids where it names users and groups', () => {
    for (const name of [ACCESS, DEFAULT])
      expect(shift(plain, directory('d', { mode: 0o670 }), name)).toBe(shifted.replaceAll(' ', ''));
  });

  it('is refused with an id outside', () => {
    let said = '';
    try {
      shift(list('64000000', '00000000'));
    } catch (error) {
      said = codeFrom(error);
    }
    expect(said).toBe('OCI_LAYER_UNSAFE');
  });

  it.each([
    ['of another version', `03000000${'00'.repeat(8)}`],
    ['that is cut short', '020000000100'],
    ['without a version', '0200'],
    ['of nothing', ''],
  ])('%s goes', (_what, value) => {
    expect(shift(value)).toBeUndefined();
  });

  it('of a symlink goes', () => {
    expect(shift(plain, symlink('l', 'f'))).toBeUndefined();
  });

  it('and a capability are shifted back, and all else stays', () => {
    const body = '2000000000000000 0000000000000000';
    const xattrs = (capability: string, acl: string): ReadonlyMap<string, Buffer> =>
      new Map([
        ['user.a', Buffer.from('x')],
        [CAPABILITY, hex(capability)],
        [ACCESS, hex(acl)],
        [DEFAULT, hex(acl)],
      ]);
    const inside = xattrs(`01000003 ${body} ed030000`, shifted);
    expect(unshiftXattrs(inside, map)).toEqual(xattrs(`01000003 ${body} 05000000`, plain));
    expect(inside).toEqual(xattrs(`01000003 ${body} ed030000`, shifted));
    expect(unshiftXattrs(inside, undefined)).toBe(inside);
    // Never below zero, and never beyond the value.
    expect(unshiftXattrs(xattrs(`01000003 ${body} 05000000`, plain), map)).toEqual(
      xattrs(`01000003 ${body} 00000000`, list('00000000', '00000000')),
    );
    for (const odd of [`01000002 ${body} ed030000`, `01000003 ${body} ed0300`, ''])
      expect(unshiftXattrs(xattrs(odd, ''), map)).toEqual(xattrs(odd, ''));
    const cut = `${shifted.slice(0, 26)} 020007`;
    expect(unshiftXattrs(xattrs('', cut), map)).toEqual(xattrs('', cut));
    expect(unshiftXattrs(new Map([['user.a', Buffer.from('x')]]), map)).toEqual(
      new Map([['user.a', Buffer.from('x')]]),
    );
  });
});
