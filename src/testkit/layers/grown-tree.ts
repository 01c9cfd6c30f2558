import fc from 'fast-check';
import type { ByteString, EntryType, TarEntry } from '../../oci/layer/index.ts';

/** An entry with its body. */
export interface Grown {
  readonly entry: TarEntry;
  readonly body: Buffer;
}

export function plainEntry(path: ByteString, type: EntryType): TarEntry {
  return {
    path,
    type,
    mode: 0o644,
    uid: 0,
    gid: 0,
    size: 0,
    mtime: { seconds: 0, nanos: 0 },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
}

const bytes = (max: number): fc.Arbitrary<string> =>
  fc.uint8Array({ minLength: 1, maxLength: max }).map((array) => Buffer.from(array).toString('latin1'));
const name = bytes(255)
  .map((text) => text.replaceAll(/[\0/]/g, 'x'))
  .filter((text) => text !== '.' && text !== '..');
const TYPES: readonly EntryType[] = ['file', 'file', 'directory', 'symlink', 'link', 'char', 'block', 'fifo'];
/** Around what fits into an inode's block, and beyond. */
const length = fc.oneof(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 3950, max: 4095 }));

const raw = fc.record({
  name,
  type: fc.constantFrom(...TYPES),
  /** Which of the directories (or files, for a hard link) so far. */
  pick: fc.nat(),
  mode: fc.integer({ min: 0, max: 0o7777 }),
  uid: fc.integer({ min: 0, max: 2 ** 32 - 2 }),
  gid: fc.integer({ min: 0, max: 2 ** 32 - 2 }),
  seconds: fc.integer({ min: -(2 ** 33), max: 2 ** 33 }),
  nanos: fc.integer({ min: 0, max: 999_999_999 }),
  target: length,
  body: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 13_000 })),
  fill: fc.integer({ min: 0, max: 255 }),
  major: fc.integer({ min: 0, max: 0xfff }),
  minor: fc.integer({ min: 0, max: 0xf_ffff }),
  xattrs: fc.option(
    fc.uniqueArray(fc.tuple(bytes(60), fc.integer({ min: 0, max: 5000 })), {
      maxLength: 3,
      selector: ([key]) => key,
    }),
    { freq: 3 },
  ),
});

type Raw = typeof raw extends fc.Arbitrary<infer T> ? T : never;

/** Trees in the order in which a checked layer comes: every name once, directories first, links to what is there. */
export const grownTree: fc.Arbitrary<readonly Grown[]> = fc.array(raw, { maxLength: 60 }).map((items) => {
  const root: Grown = { entry: { ...plainEntry('.', 'directory'), mode: 0o755 }, body: Buffer.alloc(0) };
  const tree: Grown[] = [root];
  const directories: ByteString[] = [''];
  const files: ByteString[] = [];
  const taken = new Set<ByteString>(['']);
  for (const item of items) {
    const parent = directories[item.pick % directories.length] as ByteString;
    const path = parent === '' ? item.name : `${parent}/${item.name}`;
    if (taken.has(path) || (item.type === 'link' && files.length === 0)) continue;
    taken.add(path);
    const grown = grow(path, item, files[item.pick % Math.max(files.length, 1)] ?? '');
    if (item.type === 'directory') directories.push(path);
    else files.push(path);
    tree.push(grown);
  }
  return tree;
});

function grow(path: ByteString, item: Raw, linkTo: ByteString): Grown {
  if (item.type === 'link')
    return { entry: { ...plainEntry(path, 'link'), linkPath: linkTo }, body: Buffer.alloc(0) };
  const device = item.type === 'char' || item.type === 'block';
  const body = Buffer.alloc(item.type === 'file' ? item.body : 0, item.fill);
  const xattrs = item.xattrs?.map(
    ([key, size]) => [`user.${key.replaceAll('\0', 'x')}`, Buffer.alloc(size, 7)] as const,
  );
  const named = item.type === 'file' || item.type === 'directory' ? xattrs : undefined;
  return {
    entry: {
      path,
      type: item.type,
      mode: item.type === 'symlink' ? 0o777 : item.mode,
      uid: item.uid,
      gid: item.gid,
      size: body.length,
      mtime: { seconds: item.seconds, nanos: item.nanos },
      linkPath: item.type === 'symlink' ? 't'.repeat(item.target) : '',
      devMajor: device ? item.major : 0,
      devMinor: device ? item.minor : 0,
      ...(named === undefined || named.length === 0 ? {} : { xattrs: new Map(named) }),
    },
    body,
  };
}
