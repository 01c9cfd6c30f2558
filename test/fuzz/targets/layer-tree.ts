import type { EntryType, TarEntry } from '../../../src/oci/layer/index.ts';
import type { Random } from '../random.ts';
import type { Case } from '../types.ts';
import { line, sha } from './erofs-tree.ts';
import { extension, filled, header, octal, paxRecord } from './tar-bytes.ts';

const FLAGS: Readonly<Record<EntryType, string>> = {
  file: '0',
  link: '1',
  symlink: '2',
  char: '3',
  block: '4',
  directory: '5',
  fifo: '6',
};
const NONE = Buffer.alloc(0);

interface Node {
  readonly entry: TarEntry;
  readonly body: Buffer;
}

/** What a layer of this tree means, and its bytes, one entry after the other. */
interface Layer {
  readonly tree: Map<string, Node>;
  readonly parts: Buffer[];
}

function attributes(random: Random): TarEntry {
  const names = ['user.a', 'user.bc', `user.${'l'.repeat(200)}`].filter(() => random.chance(0.12));
  const xattrs = new Map(names.map((name) => [name, Buffer.alloc(random.pick([0, 1, 3, 300, 1200]), 7)]));
  return {
    path: '',
    type: 'file',
    mode: random.pick([0o644, 0o755, 0o4755, 0o1777, 0]),
    uid: random.pick([0, 1000, 2 ** 32 - 2]),
    gid: random.pick([0, 7]),
    size: 0,
    mtime: { seconds: random.pick([0, -1, 2 ** 33]), nanos: random.pick([0, 0, 999_999_999]) },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
    ...(xattrs.size === 0 ? {} : { xattrs }),
  };
}

/** Everything that a header may be too small for stands in PAX records. */
function encode(entry: TarEntry, body: Buffer): Buffer {
  const { path, type, mode, uid, gid, mtime, linkPath } = entry;
  const whole = mtime.nanos === 0 ? `${mtime.seconds}` : `${mtime.seconds}.${mtime.nanos}`;
  // One below zero and 999,999,999 up again is a billionth before the epoch.
  const time = mtime.seconds < 0 && mtime.nanos > 0 ? '-0.000000001' : whole;
  const records = [
    ...(path.length > 100 ? [paxRecord('path', path)] : []),
    ...(linkPath.length > 100 ? [paxRecord('linkpath', linkPath)] : []),
    ...(uid > 0o7777777 ? [paxRecord('uid', `${uid}`)] : []),
    ...(time === '0' ? [] : [paxRecord('mtime', time)]),
    ...[...(entry.xattrs ?? [])].map(([name, value]) =>
      paxRecord(`SCHILY.xattr.${name}`, value.toString('latin1')),
    ),
  ].join('');
  const head = header({
    name: path.slice(0, 100),
    type: FLAGS[type],
    mode: octal(mode, 7),
    ...(uid > 0o7777777 ? {} : { uid: octal(uid, 7) }),
    gid: octal(gid, 7),
    size: octal(body.length, 11),
    link: linkPath.slice(0, 100),
    major: octal(entry.devMajor, 7),
    minor: octal(entry.devMinor, 7),
  });
  return Buffer.concat([...(records === '' ? [] : [extension('x', records)]), head, filled(body)]);
}

function implied(): TarEntry {
  const time = { seconds: 0, nanos: 0 };
  return {
    path: '',
    type: 'directory',
    mode: 0o755,
    uid: 0,
    gid: 0,
    size: 0,
    mtime: time,
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
}

function add(layer: Layer, random: Random, at: { readonly path: string; readonly type: EntryType }): void {
  const { path, type } = at;
  const body = type === 'file' ? Buffer.alloc(random.pick([0, 1, 4000, 4096, 4097]), path) : NONE;
  const isDevice = type === 'char' || type === 'block';
  const plain = attributes(random);
  const { xattrs, ...bare } = plain;
  const entry: TarEntry = {
    ...(type === 'file' || type === 'directory' ? plain : bare),
    path,
    type,
    mode: type === 'symlink' ? 0o777 : plain.mode,
    size: body.length,
    // Around what fits into a block with its inode.
    linkPath:
      type === 'symlink'
        ? 't'.repeat(random.pick([1, 3600 + random.below(496), 3600 + random.below(496)]))
        : '',
    devMajor: isDevice ? random.pick([1, 0xfff]) : 0,
    devMinor: isDevice ? random.pick([0, 255, 256, 0xf_ffff]) : 0,
  };
  layer.tree.set(path, { entry, body });
  layer.parts.push(encode(entry, body));
}

/** A second name that says the same of its file. */
function link(layer: Layer, path: string, to: string): void {
  const node = layer.tree.get(to) as Node;
  layer.tree.set(path, node);
  layer.parts.push(encode({ ...node.entry, path, type: 'link', linkPath: to }, NONE));
}

/** A few entries with names and targets around what fits into a block, deletions, and what stands in no entry. */
export function makeLayer(random: Random): Case {
  const layer: Layer = { tree: new Map([['', { entry: implied(), body: NONE }]]), parts: [] };
  const folders = [''];
  const files: string[] = [];
  for (let count = random.below(random.chance(0.1) ? 50 : 9); count > 0; count--) {
    const above = random.pick(folders);
    const own = `${count}${random.text('abc\xe9', random.pick([1, 20, 200 + random.below(52)]))}`;
    const path = above === '' ? own : `${above}/${own}`;
    const what = random.below(12);
    if (what === 0) {
      layer.tree.set(path, { entry: { ...implied(), type: 'char', mode: 0 }, body: NONE });
      const mark = above === '' ? `.wh.${own}` : `${above}/.wh.${own}`;
      layer.parts.push(encode({ ...implied(), path: mark, type: 'file' }, NONE));
    } else if (what === 1) {
      layer.tree.set(path, { entry: implied(), body: NONE });
      folders.push(path);
      add(layer, random, { path: `${path}/f`, type: 'file' });
      files.push(`${path}/f`);
    } else if (what === 2 && files.length > 0) link(layer, path, random.pick(files));
    else {
      const kinds = [
        'file',
        'file',
        'directory',
        'directory',
        'symlink',
        'symlink',
        'char',
        'block',
        'fifo',
      ] as const;
      const type = random.pick(kinds);
      add(layer, random, { path, type });
      if (type === 'directory') folders.push(path);
      else files.push(path);
    }
  }
  const first = new Map<Node, string>();
  const lines = [...layer.tree]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, node]) => {
      if (!first.has(node)) first.set(node, path);
      return `${line({ ...node.entry, path }, sha(node.body))} ${first.get(node)}`;
    });
  return {
    bytes: Buffer.concat([...layer.parts, Buffer.alloc(1024)]),
    accepted: true,
    value: lines.sort().join('\n'),
  };
}
