import { gzipSync } from 'node:zlib';
import { rawHeader, type TarFile, tarFile, tarOf } from '../images/index.ts';

/** One way that image tools were fooled, or could be. */
export interface Hostile {
  /** The rule of docs/layers.md that it would break. */
  readonly rule: string;
  readonly name: string;
  /** Lowest first. */
  readonly layers: readonly Uint8Array[];
  /** The code that the last layer is refused with, or the names that it may make. */
  readonly outcome: string | readonly string[];
}

const dir = (path: string): TarFile => ({ path, type: 'directory' });
const sym = (path: string, linkPath: string): TarFile => ({ path, type: 'symlink', linkPath });
const hard = (path: string, linkPath: string): TarFile => ({
  path,
  type: 'link',
  linkPath,
  mode: 0o777,
  uid: 99,
});
const UNSAFE = 'OCI_LAYER_UNSAFE';
const INVALID = 'OCI_LAYER_INVALID';
const LIMIT = 'OCI_LAYER_LIMIT';

/**
 * Layers that try to reach `canary`, a folder outside the root with the files `secret`, `d/keep` and `d/victim`, or to
 * make two readers see two things.
 */
export function hostileLayers(canary: string): readonly Hostile[] {
  const up = `${'../'.repeat(24)}${canary.slice(1)}`;
  const inside = canary.slice(1);
  const one = (
    rule: string,
    name: string,
    files: readonly TarFile[],
    outcome: Hostile['outcome'],
  ): Hostile => ({
    rule,
    name,
    layers: [tarOf(files)],
    outcome,
  });
  const through = (name: string, target: string, how: readonly TarFile[]): Hostile =>
    one('L12', `${name}, then ${how[0]?.path}`, [sym('l', target), ...how], UNSAFE);
  const links: readonly (readonly [string, string])[] = [
    ['an absolute link', canary],
    ['a relative link', up],
    ['a link through /proc', `/proc/self/root${canary}`],
    ['a link to a file descriptor', '/proc/self/fd/3'],
    ['a link to the working directory', '/proc/self/cwd'],
  ];
  const targets: readonly (readonly [string, string])[] = [
    ['absolute', `${canary}/secret`],
    ['relative', `${up}/secret`],
    ['with a drive', `C:${canary}/secret`],
    ['of the working directory', './package.json'],
  ];
  return [
    one('L8', 'a name with ..', [{ path: `${up}/ESCAPED` }], [`${inside}/ESCAPED`]),
    one('L8', 'an absolute name', [{ path: `${canary}/ESCAPED` }], [`${inside}/ESCAPED`]),
    one('L8', '.. behind a name', [{ path: `a/../${up}/secret` }], [`${inside}/secret`]),
    one('L8', 'a folder ..', [{ ...dir('..'), mode: 0o777 }], []),
    one('L8', 'a link whose own name leaves', [sym(`${up}/d`, '/')], [`${inside}/d`]),
    one('L8', 'a device whose name leaves', [{ path: `${up}/null`, type: 'fifo' }], [`${inside}/null`]),
    one('L8', 'a whiteout with ..', [{ path: `${up}/d/.wh.victim` }], [`${inside}/d/victim`]),
    one(
      'L8',
      'a whiteout with an absolute name',
      [{ path: `${canary}/d/.wh.victim` }],
      [`${inside}/d/victim`],
    ),
    one('L8', 'an opaque mark with ..', [{ path: `${up}/d/.wh..wh..opq` }], [`${inside}/d`]),
    one(
      'L9',
      'a file in place of a link',
      [sym('s', `${canary}/secret`), { path: 's', content: 'x' }],
      UNSAFE,
    ),
    one('L9', 'a folder in place of a link', [sym('l', canary), { ...dir('l'), mode: 0o777 }], UNSAFE),
    one(
      'L9',
      'a link in place of a used folder',
      [{ path: 'd/f' }, sym('d', canary), { path: 'd/x' }],
      UNSAFE,
    ),
    one('L9', 'a link in place of a named folder', [dir('d'), sym('d', canary), { path: 'd/x' }], UNSAFE),
    one('L9', 'the same name, written otherwise', [sym('a', canary), { path: './/a/' }], UNSAFE),
    one('L9', 'a file over a hard link', [{ path: 'f' }, hard('h', 'f'), { path: 'h' }], UNSAFE),
    one('L9', 'a whiteout twice', [{ path: '.wh.f' }, { path: './.wh.f' }], UNSAFE),
    one('L10', 'the root as a link', [sym('./', canary), { path: 'ESCAPED' }], UNSAFE),
    one('L10', 'the root as a link, by another name', [sym('a/..', canary), { path: 'ESCAPED' }], UNSAFE),
    one('L10', 'the root as a file', [{ path: '/' }], UNSAFE),
    ...links.flatMap(([name, target]) => [
      through(name, target, [{ path: 'l/ESCAPED' }]),
      through(name, target, [{ path: 'l/d/.wh.victim' }]),
      through(name, target, [{ path: 'l/d/.wh..wh..opq' }]),
      through(name, target, [dir('l/new')]),
    ]),
    one('L12', 'two links', [sym('a', 'b/..'), sym('b', canary), { path: 'a/ESCAPED' }], UNSAFE),
    one('L12', 'a hard link to a link', [sym('s', canary), hard('h', 's'), { path: 'h/ESCAPED' }], UNSAFE),
    // Where such names are one name, the second goes through the first (CVE-2026-23950).
    one('L12', 'a link and a folder, equal but for case', [sym('L', canary), { path: 'l/f' }], ['L', 'l/f']),
    one(
      'L12',
      'a link and a folder, equal by Unicode',
      [sym('caf\u00e9', canary), { path: 'cafe\u0301/f' }],
      ['caf\u00e9', 'cafe\u0301/f'],
    ),
    one(
      'L12',
      'a link and a folder, equal when folded',
      [sym('ss', canary), { path: '\u00df/f' }],
      ['ss', '\u00df/f'],
    ),
    // Checks that compare prefixes take it for the root (CVE-2024-12905 and its kin).
    through('a folder beside the root that begins as the root is called', '../0-beside', [{ path: 'l/f' }]),
    one('L12', 'a loop', [sym('a', 'b'), sym('b', 'a'), { path: 'a/f' }], UNSAFE),
    one('L12', 'a link to nothing', [sym('a', '')], UNSAFE),
    one('L12', '/dev as a link', [sym('dev', canary), { path: 'dev/null' }], UNSAFE),
    one('L12', '/dev as a link, kept', [sym('dev', canary), sym('proc', up)], ['dev', 'proc']),
    one(
      'L12',
      'links where a container works',
      [sym('work', `${canary}/d`), sym('tmp', '/')],
      ['work', 'tmp'],
    ),
    {
      rule: 'L11',
      name: '/dev as a link of a layer below',
      layers: [
        tarOf([sym('dev', canary), sym('l', up)]),
        tarOf([{ path: 'dev/ESCAPED' }, { path: 'l/d/.wh.victim' }]),
      ],
      outcome: ['dev/ESCAPED', 'l/d/victim'],
    },
    ...targets.map(([name, target]) =>
      one('L13', `a hard link, ${name}`, [hard('h', target), { path: 'x', content: 'x' }], UNSAFE),
    ),
    one('L13', 'a hard link to what begins as the root is called', [hard('h', '../0-beside/f')], UNSAFE),
    one('L13', 'a hard link through a link', [sym('l', canary), hard('h', 'l/secret')], UNSAFE),
    one('L13', 'a hard link through two', [sym('a', canary), sym('b', 'a'), hard('h', 'b/secret')], UNSAFE),
    one('L13', 'a hard link to a folder', [dir('d'), hard('h', 'd')], UNSAFE),
    one('L13', 'a hard link to the root', [hard('h', '..')], UNSAFE),
    one('L13', 'a hard link to itself', [hard('h', './h')], UNSAFE),
    one('L13', 'a hard link to nothing', [hard('h', '')], UNSAFE),
    one('L13', 'a hard link to what comes later', [hard('h', 'f'), { path: 'f' }], UNSAFE),
    {
      rule: 'L14',
      name: 'a hard link through a link of a layer below',
      layers: [tarOf([sym('l', canary)]), tarOf([hard('h', 'l/secret')])],
      outcome: UNSAFE,
    },
    {
      rule: 'L14',
      name: 'a hard link into a folder that is a link in a layer below',
      layers: [tarOf([sym('l', canary)]), tarOf([dir('l')]), tarOf([hard('h', 'l/secret')])],
      outcome: UNSAFE,
    },
    {
      rule: 'L14',
      name: 'the same, the link leading to a folder of the layer',
      layers: [
        tarOf([{ path: 'd/secret' }, sym('l', 'd')]),
        tarOf([dir('l')]),
        tarOf([hard('h', 'l/secret')]),
      ],
      outcome: UNSAFE,
    },
    {
      rule: 'L14',
      name: 'a hard link to a file that a layer between deletes',
      layers: [tarOf([{ path: 'f' }]), tarOf([{ path: '.wh.f' }]), tarOf([hard('h', 'f')])],
      outcome: UNSAFE,
    },
    one(
      'L15',
      'attributes of a link by its hard link',
      [sym('s', `${canary}/secret`), hard('h', 's')],
      ['h', 's'],
    ),
    one('L20', 'the device that deletes', [{ path: 'f', type: 'char' }], UNSAFE),
    one('L23', 'a whiteout of nothing', [{ path: '.wh.' }], UNSAFE),
    one('L23', 'a whiteout of the folder itself', [dir('d'), { path: 'd/.wh..' }], UNSAFE),
    one('L23', 'a whiteout of the folder above', [dir('d'), { path: 'd/.wh...' }], UNSAFE),
    one('L23', 'a whiteout of what is above the root', [{ path: '.wh...' }], UNSAFE),
    ...desynchronised(),
    ...tooMuch(),
  ];
}

function sized(octal: string): string {
  return `${octal.padStart(11, '0')}\0`;
}

/** Records as they are given: `key=value`. */
export function pax(records: readonly string[], type = 'x'): Buffer {
  const lines = records.map((record) => {
    const rest = record.length + 2;
    const length = rest + String(rest).length;
    return `${String(length).length === String(rest).length ? length : length + 1} ${record}\n`;
  });
  const body = Buffer.from(lines.join(''));
  const header = rawHeader({ 124: sized(body.length.toString(8)), 156: type });
  return Buffer.concat([header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}

/** Archives that two readers cut into entries differently: one of them sees what the other never checked. */
function desynchronised(): readonly Hostile[] {
  const hidden = tarFile({ path: 'HIDDEN', content: '' });
  const size = (value: number): string => `size=${String(value).padStart(10, '0')}`;
  const end = Buffer.alloc(1024);
  const of = (name: string, parts: readonly Uint8Array[], outcome: Hostile['outcome']): Hostile => ({
    rule: 'L5',
    name,
    layers: [Buffer.concat([...parts, end])],
    outcome,
  });
  const next = tarFile({ path: 'next' });
  return [
    of('a PAX size over a header of size 0', [pax([size(512)]), rawHeader({}), hidden, next], ['f', 'next']),
    of(
      'a PAX size of 0 over a larger one',
      [pax([size(0)]), rawHeader({ 124: sized('1000') }), next],
      ['f', 'next'],
    ),
    of('two PAX sizes', [pax([size(0), size(512)]), rawHeader({}), hidden, next], ['f', 'next']),
    of(
      'a PAX size before a long name',
      [
        pax([size(1024)]),
        rawHeader({ 124: sized('6'), 156: 'L' }),
        Buffer.concat([Buffer.from('named\0'), Buffer.alloc(506)]),
        rawHeader({}),
        hidden,
        hidden,
        next,
      ],
      ['named', 'next'],
    ),
    of(
      'a PAX size before PAX records',
      [pax([size(512)]), pax(['path=named']), rawHeader({}), next],
      ['named', 'next'],
    ),
    of('a link with a size', [rawHeader({ 124: sized('1000'), 156: '2', 157: 'x' }), next], ['f', 'next']),
    of('a negative size', [rawHeader({ 124: Buffer.alloc(12, 0xff) })], INVALID),
    of('a size of 2^62', [rawHeader({ 124: Buffer.from('804000000000000000000000', 'hex') })], INVALID),
    of('a PAX path with a NUL', [pax(['path=a\0b']), rawHeader({})], INVALID),
    of('a PAX record longer than its header', [pax(['path=abcdef\n99 path=x'])], INVALID),
    of('a lone zero block between entries', [next, Buffer.alloc(512), tarFile({ path: 'HIDDEN' })], INVALID),
    of('entries behind the end', [next, end, tarFile({ path: 'HIDDEN' })], ['next']),
    of(
      'an end inside a file',
      [tarFile({ path: 'a', content: 'x'.repeat(5000) }).subarray(0, 1000)],
      INVALID,
    ),
    { ...of('a global PAX size', [pax([size(512)], 'g'), rawHeader({}), next], ['f', 'next']), rule: 'L6' },
    { ...of('a global PAX path', [pax(['path=HIDDEN.'], 'g'), next], ['next']), rule: 'L6' },
  ];
}

/** Each beyond one declared limit. */
function tooMuch(): readonly Hostile[] {
  const over = (name: string, files: readonly TarFile[]): Hostile => ({
    rule: 'L24',
    name,
    layers: [tarOf(files)],
    outcome: LIMIT,
  });
  const map = Array.from({ length: 65_537 }, (_, at) => `${at * 2},1`).join(',');
  return [
    over('a name of 256 bytes', [{ path: 'n'.repeat(256) }]),
    over('a path of 4096 bytes', [{ path: `${'n'.repeat(200)}/`.repeat(21) }]),
    over('1025 folders in each other', [{ path: `${'d/'.repeat(1025)}f` }]),
    over('a link target of 4096 bytes', [sym('l', 't'.repeat(4096))]),
    over('an attribute of more than a megabyte', [
      { path: 'f', xattrs: new Map([['user.a', Buffer.alloc(1 << 20)]]) },
    ]),
    {
      rule: 'L24',
      name: 'a sparse file of too many pieces',
      layers: [
        Buffer.concat([
          pax([`GNU.sparse.map=${map}`, 'GNU.sparse.numblocks=65537', 'GNU.sparse.size=200000']),
          tarOf([{ path: 'f' }]),
        ]),
      ],
      outcome: LIMIT,
    },
    {
      rule: 'L24',
      name: 'a sparse file of 100 GiB that holds nothing',
      layers: [
        gzipSync(
          Buffer.concat([
            pax(['GNU.sparse.map=0,0', 'GNU.sparse.numblocks=1', `GNU.sparse.size=${100 * 2 ** 30}`]),
            tarOf([{ path: 'f' }]),
          ]),
        ),
      ],
      outcome: LIMIT,
    },
    {
      rule: 'L24',
      name: 'a file of 2^48 bytes',
      layers: [rawHeader({ 124: Buffer.from('800000000001000000000000', 'hex') })],
      outcome: LIMIT,
    },
    {
      rule: 'L2',
      name: 'a gzip stream cut short',
      layers: [gzipSync(tarOf([{ path: 'f' }])).subarray(0, -8)],
      outcome: INVALID,
    },
    {
      rule: 'L2',
      name: 'something behind a gzip stream',
      layers: [Buffer.concat([gzipSync(tarOf([{ path: 'f' }])), Buffer.from('HIDDEN')])],
      outcome: INVALID,
    },
  ];
}
