import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces, type TarFile, tarOf } from '../../testkit/images/index.ts';
import type { IdMap } from '../port.ts';
import { shiftCapability } from './attributes.ts';
import type { LowerFile } from './check.ts';
import { type LayerSink, NeedsParents, type TarEntry, unpackLayer } from './index.ts';
import { DEFAULT_LIMITS, type LayerLimits } from './limits.ts';

class ListSink implements LayerSink {
  readonly entries: TarEntry[] = [];
  readonly bodies = new Map<string, string>();
  readonly restamped: string[] = [];
  ended = '';

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    this.entries.push(entry);
    if (entry.size === 0) return;
    let body = '';
    for (let part = await next(); part !== undefined; part = await next()) body += part.toString();
    this.bodies.set(entry.path, body);
  }
  async restamp(entry: TarEntry): Promise<void> {
    this.restamped.push(`${entry.path} ${entry.mode.toString(8)} ${entry.uid}`);
  }
  async finish(): Promise<void> {
    this.ended = 'finished';
  }
  async abort(): Promise<void> {
    this.ended = 'aborted';
  }
}

interface Options {
  readonly map?: IdMap;
  readonly lower?: (path: string) => Promise<LowerFile | undefined>;
  readonly limits?: LayerLimits;
}

async function checked(files: readonly TarFile[], options: Options = {}): Promise<ListSink> {
  const sink = new ListSink();
  await unpackLayer(inPieces(tarOf(files)), sink, {
    map: options.map,
    lower: options.lower,
    ...(options.limits === undefined ? {} : { limits: options.limits }),
    signal: new AbortController().signal,
  });
  return sink;
}

async function outcome(files: readonly TarFile[], options: Options = {}): Promise<string> {
  try {
    const sink = await checked(files, options);
    return sink.entries.map(show).join(' ');
  } catch (error) {
    if (error instanceof NeedsParents) return 'NeedsParents';
    return codeFrom(error);
  }
}

function show(entry: TarEntry): string {
  const mark = { file: '', directory: '/', symlink: '@', link: '=', char: '%', block: '#', fifo: '|' }[
    entry.type
  ];
  const opaque = entry.xattrs?.has('trusted.overlay.opaque') ? '!' : '';
  return `${entry.path}${mark}${entry.linkPath}${opaque}`;
}

const dir = (path: string): TarFile => ({ path, type: 'directory' });
const sym = (path: string, linkPath: string): TarFile => ({ path, type: 'symlink', linkPath });
const hard = (path: string, linkPath: string): TarFile => ({ path, type: 'link', linkPath });

describe('nothing reaches outside the root', () => {
  it.each<[string, readonly TarFile[], string]>([
    ['an absolute name stays inside', [{ path: '/etc/f' }], 'etc/ etc/f ./'],
    ['a traversal is clamped at the root', [{ path: '../../f' }], 'f ./'],
    ['a traversal in the middle', [{ path: 'a/../../../f' }], 'f ./'],
    [
      'through an absolute link out of the layer',
      [sym('l', '/srv/host'), { path: 'l/f' }],
      'OCI_LAYER_UNSAFE',
    ],
    ['through a relative link out of the root', [sym('l', '../../srv'), { path: 'l/f' }], 'OCI_LAYER_UNSAFE'],
    ['through a link to /proc/self/root', [sym('l', '/proc/self/root'), { path: 'l/f' }], 'OCI_LAYER_UNSAFE'],
    ['through a link into the layer', [dir('d'), sym('l', '/d'), { path: 'l/f' }], 'd/ l@/d d/f ./'],
    [
      'through a chain that runs past the root',
      [sym('a', 'b'), sym('b', '..'), { path: 'a/f' }],
      'a@b b@.. f ./',
    ],
    ['through a loop of links', [sym('a', 'b'), sym('b', 'a'), { path: 'a/f' }], 'OCI_LAYER_UNSAFE'],
    ['below a file', [{ path: 'f' }, { path: 'f/g' }], 'OCI_LAYER_UNSAFE'],
    ['a link in place of a folder that was used', [{ path: 'd/f' }, sym('d', '/srv')], 'OCI_LAYER_UNSAFE'],
    ['the root as a link (CVE-2021-29136)', [sym('./', '/srv')], 'OCI_LAYER_UNSAFE'],
    ['the root as a file', [{ path: '.' }], 'OCI_LAYER_UNSAFE'],
    ['a hard link out of the root', [hard('h', '../../etc/shadow')], 'NeedsParents'],
    ['a hard link through a link', [sym('l', '/etc'), hard('h', 'l/shadow')], 'OCI_LAYER_UNSAFE'],
    ['a hard link to a folder', [dir('d'), hard('h', 'd')], 'OCI_LAYER_UNSAFE'],
    ['a hard link to itself', [{ path: 'h' }, hard('g', 'g')], 'OCI_LAYER_UNSAFE'],
    ['a hard link to an absolute name inside', [{ path: 'd/f' }, hard('h', '/d/f')], 'd/ d/f h=d/f ./'],
    ['a hard link to a link stays one', [sym('s', '/etc/shadow'), hard('h', 's')], 's@/etc/shadow h=s ./'],
    ['and then through it', [sym('s', '/srv'), hard('h', 's'), { path: 'h/f' }], 'OCI_LAYER_UNSAFE'],
    ['a name twice', [{ path: 'f' }, { path: './f' }], 'OCI_LAYER_UNSAFE'],
    ['a device named as deletion', [{ path: 'f', type: 'char' }], 'OCI_LAYER_UNSAFE'],
    ['a link to nothing', [sym('l', '')], 'OCI_LAYER_UNSAFE'],
    ['a name too long', [{ path: 'n'.repeat(256) }], 'OCI_LAYER_LIMIT'],
    ['a path too long', [{ path: 'n/'.repeat(2100) }], 'OCI_LAYER_LIMIT'],
    ['a link target too long', [sym('l', 't'.repeat(4096))], 'OCI_LAYER_LIMIT'],
    ['/dev as a link (CVE-2026-55686 class)', [sym('dev', '/srv'), { path: 'dev/null' }], 'OCI_LAYER_UNSAFE'],
  ])('%s', async (_what, files, result) => {
    expect(await outcome(files)).toBe(result);
  });

  it('too many entries', async () => {
    const limits = { ...DEFAULT_LIMITS, maxEntries: 2 };
    expect(await outcome([{ path: 'a' }, { path: 'b' }], { limits })).toBe('a b ./');
    expect(await outcome([{ path: 'a' }, { path: 'b' }, { path: 'c' }], { limits })).toBe('OCI_LAYER_LIMIT');
  });

  it('L15 a hard link gives its file the attributes that it states', async () => {
    const sink = await checked([
      { path: 'a', mode: 0o640, uid: 1 },
      { path: 'b', type: 'link', linkPath: 'a', mode: 0o600, uid: 2 },
      { path: 'c', type: 'link', linkPath: 'a', mode: 0o600, uid: 2 },
      { path: 'd', type: 'link', linkPath: 'b', mode: 0o640, uid: 1 },
      { path: 'like a', mode: 0o640, uid: 1 },
      { path: 'e', type: 'link', linkPath: 'like a', mode: 0o640, uid: 1 },
    ]);
    expect(sink.restamped).toEqual(['b 600 2', 'd 640 1']);
  });

  it('and a refusal stops the writer', async () => {
    const sink = new ListSink();
    const bytes = tarOf([{ path: 'f' }, { path: 'f' }]);
    const options = { map: undefined, signal: new AbortController().signal };
    await expect(unpackLayer(inPieces(bytes), sink, options)).rejects.toThrow('twice');
    expect(sink.ended).toBe('aborted');
  });
});

describe('whiteouts', () => {
  it.each<[string, readonly TarFile[], string]>([
    ['become devices 0:0', [{ path: 'd/.wh.gone' }], 'd/ d/gone% ./'],
    ['hide lower layers only: file', [{ path: 'f' }, { path: '.wh.f' }], 'f ./'],
    ['hide lower layers only: the other order', [{ path: '.wh.f' }, { path: 'f' }], 'f ./'],
    ['and a folder of the same name is opaque', [{ path: '.wh.d' }, { path: 'd/f' }], 'd/ d/f d/! ./'],
    ['opaque after its children', [dir('d'), { path: 'd/f' }, { path: 'd/.wh..wh..opq' }], 'd/ d/f d/! ./'],
    ['opaque without an entry', [{ path: 'a/d/.wh..wh..opq' }], 'a/ a/d/! ./'],
    ['opaque at the root', [{ path: '.wh..wh..opq' }], './!'],
    ['below a file that hides it all', [{ path: 'f' }, { path: 'f/.wh.x' }], 'f ./'],
    ['below a file that comes later', [{ path: 'f/.wh.x' }, { path: 'f' }], 'f ./'],
    ['through a link of the layer', [dir('d'), sym('l', 'd'), { path: 'l/.wh.f' }], 'd/ l@d d/f% ./'],
    ['through a link out of it', [sym('l', '/srv'), { path: 'l/.wh.f' }], 'OCI_LAYER_UNSAFE'],
    ['as a folder', [dir('.wh.f')], 'f% ./'],
    ['with a traversal', [{ path: '../../d/.wh.victim' }], 'd/ d/victim% ./'],
    ['of nothing', [{ path: '.wh.' }], 'OCI_LAYER_UNSAFE'],
    ['of .', [{ path: 'd/.wh..' }], 'OCI_LAYER_UNSAFE'],
    ['of ..', [{ path: 'd/.wh...' }], 'OCI_LAYER_UNSAFE'],
    ['marks of AUFS go', [dir('.wh..wh.plnk'), { path: 'f' }], 'f ./'],
    ['of a name of 252 bytes', [{ path: `.wh.${'n'.repeat(252)}` }], `${'n'.repeat(252)}% ./`],
  ])('%s', async (_what, files, result) => {
    expect(await outcome(files)).toBe(result);
  });
});

describe('what stands on disk', () => {
  const map = { hostBase: 1_000_000, size: 65_536 };

  it('belongs to shifted ids, parents that no entry names too', async () => {
    const { entries } = await checked([{ path: 'd/f', uid: 5, gid: 6 }, { path: '.wh.x' }], { map });
    expect(entries.map((entry) => [entry.path, entry.uid, entry.gid])).toEqual([
      ['d', 1_000_000, 1_000_000],
      ['d/f', 1_000_005, 1_000_006],
      ['x', 1_000_000, 1_000_000],
      ['.', 1_000_000, 1_000_000],
    ]);
  });

  it.each([65_536, 2 ** 32 - 1, 2 ** 32 + 5])('and the owner %d is refused', async (uid) => {
    expect(await outcome([{ path: 'f', uid }], { map })).toBe('OCI_LAYER_UNSAFE');
  });

  it('keeps user attributes and capabilities, drops what steers overlayfs or the host', async () => {
    const xattrs = new Map(
      [
        'user.a',
        'user.overlay.opaque',
        'trusted.overlay.opaque',
        'trusted.x',
        'security.selinux',
        'security.ima',
        'system.nfs4_acl',
      ].map((name) => [name, Buffer.from('y')]),
    );
    xattrs.set('security.capability', Buffer.from('0100000200200000000000000000000000000000', 'hex'));
    const { entries } = await checked([
      { path: 'f', xattrs },
      { path: 'l', type: 'symlink', linkPath: 'f', xattrs },
    ]);
    expect([...(entries[0]?.xattrs?.keys() ?? [])]).toEqual(['security.capability', 'user.a']);
    expect(entries[1]?.xattrs).toBeUndefined();
  });

  it('has capabilities for the root of its own user namespace', () => {
    const plain = Buffer.from('0100000200200000000000000000000000000000', 'hex');
    expect(shiftCapability(plain, undefined)).toEqual(plain);
    expect(shiftCapability(plain, map)?.toString('hex')).toBe(
      '010000030020000000000000000000000000000040420f00',
    );
    expect(shiftCapability(Buffer.from('01000002'), map)).toBeUndefined();
  });
});

describe('a hard link into the layers below', () => {
  const entry: TarEntry = {
    path: 'real/f',
    type: 'file',
    mode: 0o640,
    uid: 3,
    gid: 4,
    size: 2,
    mtime: { seconds: 1, nanos: 0 },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
  async function* body(): AsyncGenerator<Buffer> {
    yield Buffer.from('hi');
  }
  const folder: TarEntry = { ...entry, type: 'directory', size: 0, mode: 0o700, uid: 9 };
  const lower = async (path: string): Promise<LowerFile | undefined> => {
    if (path === 'real') return { path: 'real', entry: folder, body };
    return path === 'l/f' ? { path: 'real/f', entry, body } : undefined;
  };

  it('L14 writes its target again, under both names, and their folder as it is below', async () => {
    const sink = await checked([hard('h', 'l/f'), hard('i', 'l/f')], { lower });
    expect(sink.entries.map(show)).toEqual(['h', 'i=h', 'real/', 'real/f=h', './']);
    expect(sink.bodies.get('h')).toBe('hi');
    expect(sink.entries[2]).toMatchObject({ mode: 0o700, uid: 9 });
  });

  it.each<[string, readonly TarFile[], string]>([
    ['deletes the old name', [hard('h', 'l/f'), { path: 'real/.wh.f' }], 'h real/ real/f% ./'],
    ['deletes its folder', [hard('h', 'l/f'), { path: '.wh.real' }], 'h real% ./'],
    ['hides its folder', [hard('h', 'l/f'), { path: 'real/.wh..wh..opq' }], 'h real/! ./'],
    ['has another file there', [hard('h', 'l/f'), { path: 'real/f' }], 'h real/ real/f ./'],
    ['has a link in the way', [hard('h', 'l/f'), sym('real', '/srv')], 'h real@/srv ./'],
    ['links to a folder', [hard('h', 'real')], 'OCI_LAYER_UNSAFE'],
  ])('L14 and keeps to itself what the layer says of the old name: %s', async (_what, files, result) => {
    expect(await outcome(files, { lower })).toBe(result);
  });

  it('is refused where nothing is there', async () => {
    expect(await outcome([hard('h', 'none')], { lower })).toBe('OCI_LAYER_UNSAFE');
  });

  it('is refused where this layer deleted it before', async () => {
    expect(await outcome([{ path: 'l/.wh.f' }, hard('h', 'l/f')], { lower })).toBe('OCI_LAYER_UNSAFE');
  });
});
