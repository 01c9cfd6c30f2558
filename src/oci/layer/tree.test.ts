import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { showPath } from './entry.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { cleanPath, LayerTree } from './tree.ts';

function said(work: () => unknown): readonly unknown[] {
  try {
    return [work()];
  } catch (error) {
    return [codeFrom(error), (error as Error).message.replace(/^the layer (is refused: )?/, '')];
  }
}

describe('a clean path', () => {
  const limits = { ...DEFAULT_LIMITS, maxPathBytes: 20, maxNameBytes: 5, maxDepth: 3 };

  it.each([
    ['', ''],
    ['.', ''],
    ['/', ''],
    ['..', ''],
    ['a', 'a'],
    ['/a', 'a'],
    ['./a/', 'a'],
    ['a//b/./c', 'a/b/c'],
    ['a/../b', 'b'],
    ['../../a', 'a'],
    ['a/b/../..', ''],
    ['...', '...'],
    ['.a/..b', '.a/..b'],
  ])('of %j is %j', (path, clean) => {
    expect(cleanPath(path, limits)).toBe(clean);
  });

  it.each<[string, readonly string[]]>([
    ['a\0', ['OCI_LAYER_UNSAFE', 'a name holds a NUL']],
    ['./'.repeat(10), ['']],
    [`/${'./'.repeat(10)}`, ['OCI_LAYER_LIMIT', 'has a name of 21 bytes']],
    ['a/12345', ['a/12345']],
    ['a/123456', ['OCI_LAYER_LIMIT', 'has a name of 6 bytes in "a/123456"']],
    ['.wh.12345', ['.wh.12345']],
    ['.wh.123456', ['OCI_LAYER_LIMIT', 'has a name of 10 bytes in ".wh.123456"']],
    ['wh.12345', ['OCI_LAYER_LIMIT', 'has a name of 8 bytes in "wh.12345"']],
    ['a/b/c/d', ['a/b/c/d']],
    ['a/b/c/d/e', ['OCI_LAYER_LIMIT', 'has a name below 4 directories']],
  ])('of %j is within the limits or refused', (path, wanted) => {
    expect(said(() => cleanPath(path, limits))).toEqual(wanted);
  });

  it('of a layer may be as long as Linux has it', () => {
    expect(DEFAULT_LIMITS).toEqual({
      maxEntries: 1_000_000,
      maxBytes: 137_438_953_472,
      maxRatio: 250,
      ratioFreeBytes: 1_073_741_824,
      maxPathBytes: 4095,
      maxDepth: 1024,
      maxNameBytes: 255,
      maxMetaBytes: 1_048_576,
    });
  });
});

describe('a name is resolved', () => {
  const tree = (links: Readonly<Record<string, string>>, folders: readonly string[] = []): LayerTree => {
    const made = new LayerTree();
    for (const path of folders) made.set(path, { kind: 'directory', entry: undefined });
    for (const [path, target] of Object.entries(links))
      made.set(path, { kind: 'symlink', target, stamp: '' });
    return made;
  };
  const folders = ['d', 'd/e', 'x'];

  it.each<[string, Readonly<Record<string, string>>, string, string]>([
    ['at the root', {}, 'f', 'f'],
    ['where nothing is there', {}, 'n/m/f', 'n/m/f'],
    ['in folders', {}, 'd/e/f', 'd/e/f'],
    ['in a folder that is not there below one that is', {}, 'd/n/f', 'd/n/f'],
    ['through a link', { l: 'd/e' }, 'l/f', 'd/e/f'],
    ['through a link of a folder', { 'd/l': 'e' }, 'd/l/f', 'd/e/f'],
    ['through a link up', { 'd/e/l': '..' }, 'd/e/l/f', 'd/f'],
    ['through a link to the root', { 'd/l': '/' }, 'd/l/f', 'f'],
    ['through a link above the root', { 'd/l': '../../../x' }, 'd/l/f', 'x/f'],
    ['through an absolute link', { 'd/l': '/x' }, 'd/l/f', 'x/f'],
    ['through a link with dots and slashes', { l: './/d/./e/' }, 'l/f', 'd/e/f'],
    ['through a link to itself above', { 'd/l': '.' }, 'd/l/e/f', 'd/e/f'],
    ['through links one after another', { l: 'd', 'd/m': 'e' }, 'l/m/f', 'd/e/f'],
    ['through a link to a link', { l: 'm', m: 'd' }, 'l/f', 'd/f'],
    ['but for its last component', { 'd/l': '/x' }, 'd/l', 'd/l'],
  ])('%s', (_what, links, path, resolved) => {
    const made = tree(links, folders);
    expect(made.resolveParent(path)).toBe(resolved);
    // And again, from what is remembered.
    expect(made.resolveParent(`${path}2`)).toBe(`${resolved}2`);
    expect(made.resolveParent('other/g')).toBe('other/g');
    expect(made.resolveParent(path)).toBe(resolved);
  });

  it('and refused where a link leads out of the layer, or a file is on the way', () => {
    const made = tree({ l: '/srv/host', m: 'd/none', n: 'leaf' }, folders);
    made.set('leaf', made.leaf('file', ''));
    made.set('d/pipe', made.leaf('fifo', ''));
    expect([
      said(() => made.resolveParent('l/f')),
      said(() => made.resolveParent('m/f')),
      said(() => made.resolveParent('n/f')),
      said(() => made.resolveParent('leaf/f')),
      said(() => made.resolveParent('d/pipe/e/f')),
    ]).toEqual([
      ['OCI_LAYER_UNSAFE', '"l/f" goes through a link to "srv", which the layer does not have'],
      ['OCI_LAYER_UNSAFE', '"m/f" goes through a link to "d/none", which the layer does not have'],
      ['OCI_LAYER_UNSAFE', '"n/f" lies below "leaf", which is not a directory'],
      ['OCI_LAYER_UNSAFE', '"leaf/f" lies below "leaf", which is not a directory'],
      ['OCI_LAYER_UNSAFE', '"d/pipe/e/f" lies below "d/pipe", which is not a directory'],
    ]);
  });

  it('what was nothing and became a link is followed', () => {
    const made = tree({}, folders);
    expect(made.resolveParent('l/f')).toBe('l/f');
    made.set('l', { kind: 'symlink', target: 'd', stamp: '' });
    expect(made.resolveParent('l/f')).toBe('d/f');
  });

  it.each([false, true])('through 40 links and no more (each followed before: %s)', (before) => {
    const chain = (count: number): Readonly<Record<string, string>> =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`l${at}`, at === 0 ? 'd' : `l${at - 1}`]));
    const made = tree(chain(41), folders);
    if (before) for (let at = 0; at < 39; at++) expect(made.resolveParent(`l${at}/f`)).toBe('d/f');
    expect(made.resolveParent('l39/f')).toBe('d/f');
    const refused = ['OCI_LAYER_UNSAFE', '"l40/f" goes through too many links'];
    expect(said(() => made.resolveParent('l40/f'))).toEqual(refused);
    expect(said(() => tree(chain(41), folders).resolveParent('l40/f'))).toEqual(refused);
    expect(said(() => tree({ a: 'b', b: 'a' }).resolveParent('a/f'))).toEqual([
      'OCI_LAYER_UNSAFE',
      '"a/f" goes through too many links',
    ]);
  });

  it('below a leaf, and below nothing else', () => {
    const made = tree({ l: 'x' }, folders);
    made.set('d/f', made.leaf('file', ''));
    expect(
      ['d/f', 'd/f/a', 'd/f/a/b', 'd/e/a', 'l/a', 'none/a', 'd'].map((path) => made.isBelowLeaf(path)),
    ).toEqual([false, true, true, false, false, false, false]);
  });
});

describe('files of equal attributes', () => {
  it('share a node until one gets a second name', () => {
    const tree = new LayerTree();
    for (const path of ['a', 'b']) tree.set(path, tree.leaf('file', 's'));
    expect(tree.get('a')).toBe(tree.get('b'));
    expect(tree.leaf('fifo', 's')).not.toBe(tree.get('a'));
    expect(tree.leaf('file', 't')).toEqual({ kind: 'leaf', type: 'file', stamp: 't' });
    const own = tree.share('a');
    expect(own).toEqual({ kind: 'leaf', type: 'file', stamp: 's' });
    expect(tree.get('a')).toBe(own);
    expect(tree.get('b')).not.toBe(own);
    expect(tree.share('a')).toBe(own);
  });

  it('and a link has a node of its own', () => {
    const tree = new LayerTree();
    tree.set('l', { kind: 'symlink', target: 't', stamp: 's' });
    expect(tree.share('l')).toBe(tree.get('l'));
  });
});

describe('a name in a message', () => {
  it('is quoted, escaped and cut', () => {
    expect(showPath('a"\n')).toBe('"a\\"\\n"');
    expect(showPath('\xc3\xa4')).toBe('"ä"');
    expect(showPath('n'.repeat(200))).toBe(`"${'n'.repeat(200)}"`);
    expect(showPath('n'.repeat(201))).toBe(`"${'n'.repeat(200)}…"`);
  });
});
