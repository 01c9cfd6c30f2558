import { createHash } from 'node:crypto';
import type { TarEntry } from '../../../src/oci/layer/index.ts';
import { DEFAULT_LIMITS } from '../../../src/oci/layer/limits.ts';
import { readTar } from '../../../src/oci/layer/reader.ts';
import { encodeEntry, endOfArchive, FOR_GNU_TAR, PORTABLE, padding } from '../../../src/oci/layer/writer.ts';
import { mutateBytes } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { Case, Target } from '../types.ts';
import { gnuTar, type Read } from './gnu-tar.ts';
import { layerSeeds } from './layer-seeds.ts';
import { base256, extension, filled, header, mutatePax, mutateTar, octal, paxRecord } from './tar-bytes.ts';

/** A sparse file of a few bytes may ask for any number of zeros. */
const LIMITS = { ...DEFAULT_LIMITS, maxBytes: 1 << 20 };

type Spec = Pick<TarEntry, 'path' | 'type' | 'uid' | 'linkPath' | 'mtime' | 'size'> & {
  readonly body: Buffer;
  readonly xattrs?: ReadonlyMap<string, Buffer>;
};

const plain: Spec = {
  path: 'f',
  type: 'file',
  uid: 0,
  linkPath: '',
  mtime: { seconds: 0, nanos: 0 },
  size: 0,
  body: Buffer.alloc(0),
};

/** What is to be read, and the bytes that say so. */
function entry(random: Random): readonly [Spec, Buffer] {
  const length = random.pick([1, 5, 99, 100]);
  const path = `${random.text('abc\xe9', length)}`;
  const body = Buffer.from(random.text('xyz\0\n', random.pick([0, 1, 511, 512, 513, 1024])), 'latin1');
  const file = { ...plain, path, body, size: body.length };
  const sized = { name: path, size: octal(body.length, 11) };
  switch (random.below(11)) {
    case 0: {
      const linkPath = random.text('abc/', random.pick([1, 99, 100]));
      return [
        { ...plain, path, type: 'symlink', linkPath },
        header({ name: path, type: '2', link: linkPath }),
      ];
    }
    case 1: {
      const prefix = random.text('pq', random.pick([1, 154, 155]));
      return [
        { ...file, path: `${prefix}/${path}` },
        Buffer.concat([header({ ...sized, prefix }), filled(body)]),
      ];
    }
    case 2: {
      const long = random.text('abc/', random.pick([101, 255, 511, 512, 513]));
      const [before, linkPath] = random.chance(0.5)
        ? [extension('L', `${long}\0`), '']
        : [Buffer.concat([extension('L', long), extension('K', `${long}\0`)]), long];
      const type = linkPath === '' ? 'file' : 'link';
      const head = header({ name: 'cut', type: linkPath === '' ? '0' : '1' });
      return [{ ...plain, path: long, type, linkPath }, Buffer.concat([before, head])];
    }
    case 3: {
      const uid = random.pick([2 ** 21, 2 ** 32 - 2, 2 ** 40]);
      return [{ ...plain, path, uid }, header({ name: path, uid: base256(BigInt(uid), 8) })];
    }
    case 4: {
      const [text, mtime] = random.pick([
        ['1.5', { seconds: 1, nanos: 500_000_000 }],
        ['-1.25', { seconds: -2, nanos: 750_000_000 }],
        ['-3', { seconds: -3, nanos: 0 }],
        ['7.0000000019', { seconds: 7, nanos: 1 }],
      ] as const);
      const value = Buffer.from(random.text('ab\0\n=', random.pick([0, 1, 80])), 'latin1');
      const records = [
        paxRecord('path', path),
        paxRecord('mtime', text),
        paxRecord('uid', '4000000'),
        paxRecord('size', String(body.length)),
        paxRecord('SCHILY.xattr.user.x', value.toString('latin1')),
      ];
      return [
        { ...file, mtime, uid: 4_000_000, xattrs: new Map([['user.x', value]]) },
        Buffer.concat([extension('x', records.join('')), header({ name: 'cut' }), filled(body)]),
      ];
    }
    case 5:
      return sparse(random, path);
    case 6:
      return [
        { ...plain, path: `${path.slice(0, 99)}/`, type: 'directory' },
        header({ name: `${path.slice(0, 99)}/`, ...random.pick([{ type: '5' }, { type: '\0', magic: '' }]) }),
      ];
    case 7: {
      const [flag, type] = random.pick([
        ['3', 'char'],
        ['4', 'block'],
        ['6', 'fifo'],
      ] as const);
      return [{ ...plain, path, type }, header({ name: path, type: flag, magic: 'ustar  \0' })];
    }
    case 8:
      return [file, Buffer.concat([extension('g', paxRecord('comment', 'x')), header(sized), filled(body)])];
    default:
      return [file, Buffer.concat([header(sized), filled(body)])];
  }
}

function sparse(random: Random, path: string): readonly [Spec, Buffer] {
  const segments = random.pick([
    [],
    [[0, 3]],
    [[2, 3]],
    [
      [0, 512],
      [600, 100],
    ],
    [
      [0, 512],
      [1112, 0],
    ],
  ] as (readonly [number, number])[][]);
  const size = random.pick([1112, 2000]);
  const body = Buffer.alloc(size);
  const data = Buffer.concat(segments.map(([, length]) => Buffer.from(random.text('abc', length))));
  let taken = 0;
  for (const [offset, length] of segments) {
    data.copy(body, offset, taken, taken + length);
    taken += length;
  }
  const spec = { ...plain, path, size, body };
  const numbers = segments.flat();
  // Without a piece in this form only.
  if (segments.length === 0 || random.chance(0.4)) {
    const map = filled(Buffer.from(`${[segments.length, ...numbers].join('\n')}\n`));
    const stored = Buffer.concat([map, data]);
    const records = [
      paxRecord('GNU.sparse.major', '1'),
      paxRecord('GNU.sparse.minor', '0'),
      paxRecord('GNU.sparse.name', path),
      paxRecord('GNU.sparse.realsize', String(size)),
    ];
    const head = header({ name: 'cut', size: octal(stored.length, 11) });
    return [spec, Buffer.concat([extension('x', records.join('')), head, filled(stored)])];
  }
  const pieces = segments.map(
    ([offset, length]) =>
      paxRecord('GNU.sparse.offset', String(offset)) + paxRecord('GNU.sparse.numbytes', String(length)),
  );
  const map = paxRecord('GNU.sparse.map', numbers.join(','));
  const records =
    paxRecord('GNU.sparse.size', String(size)) +
    paxRecord('GNU.sparse.numblocks', String(segments.length)) +
    (pieces.length > 0 && random.chance(0.5) ? pieces.join('') : map);
  const head = header({ name: path, size: octal(data.length, 11) });
  return [spec, Buffer.concat([extension('x', records), head, filled(data)])];
}

function make(random: Random): Case {
  const made = Array.from({ length: 1 + random.below(4) }, () => entry(random));
  const end = random.pick([1024, 1024, 512, 0, 5000]);
  return {
    bytes: Buffer.concat([...made.map(([, bytes]) => bytes), Buffer.alloc(end)]),
    // Five thousand zeros end in part of a block, behind the end.
    accepted: true,
    value: JSON.stringify(
      made.map(([spec]) => [
        ...[spec.path, spec.type, 0o644, spec.uid, 0, spec.size, spec.mtime, spec.linkPath, 0, 0],
        attributes(spec.xattrs),
        sha(spec.body),
      ]),
    ),
  };
}

function sha(body: Buffer): string {
  return createHash('sha1').update(body).digest('hex');
}

function attributes(xattrs: ReadonlyMap<string, Buffer> | undefined): readonly string[] {
  return [...(xattrs ?? [])].map(([name, value]) => `${name}=${value.toString('latin1')}`).sort();
}

function canonical(value: readonly Read[]): string {
  return JSON.stringify(
    value.map(({ entry: one, body }) => [
      ...[one.path, one.type, one.mode, one.uid, one.gid, one.size, one.mtime, one.linkPath],
      ...[one.devMajor, one.devMinor, attributes(one.xattrs), sha(body)],
    ]),
  );
}

async function parse(bytes: Buffer): Promise<readonly Read[]> {
  const out: Read[] = [];
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += 777) yield bytes.subarray(at, at + 777);
  }
  for await (const { entry: one, body } of readTar(pieces(), LIMITS)) {
    const parts: Buffer[] = [];
    for await (const part of body) parts.push(Buffer.from(part));
    out.push({ entry: one, body: Buffer.concat(parts) });
  }
  return out;
}

/** Our writer is for checked entries: numbers as Linux has them, and names that are there. */
function isWritable({ entry: one }: Read): boolean {
  const device = (number: number): boolean => number >= 0 && number <= 0o7777777;
  return (
    one.path !== '' &&
    one.uid >= 0 &&
    one.gid >= 0 &&
    device(one.devMajor) &&
    device(one.devMinor) &&
    Math.abs(one.mtime.seconds) < 1e14 &&
    (one.type !== 'directory' || one.path.endsWith('/'))
  );
}

async function judge(value: readonly Read[]): Promise<string | undefined> {
  for (const { entry: one, body } of value) {
    if (body.length !== one.size) return `${one.path} has ${body.length} bytes and says ${one.size}`;
    if (/\0/.test(one.path + one.linkPath)) return 'a name holds a NUL';
  }
  const known = value.filter(isWritable);
  for (const form of [PORTABLE, FOR_GNU_TAR]) {
    const blocks = known.flatMap(({ entry: one, body }) => [encodeEntry(one, form), body, padding(one.size)]);
    const again = canonical(await parse(Buffer.concat([...blocks, endOfArchive()])));
    if (again !== canonical(known)) return `${canonical(known)} comes back as ${again}`;
  }
  return undefined;
}

export const target: Target<readonly Read[]> = {
  name: 'tar',
  judgedBy: 'what was written; both forms of our writer, read again',
  batch: 32,
  sources: {
    'src/oci/layer/reader.ts': 'all',
    'src/oci/layer/header.ts': 'all',
    'src/oci/layer/pax.ts': 'all',
    'src/oci/layer/sparse.ts': 'all',
  },
  planted: { file: 'src/oci/layer/header.ts', from: 'text(block, 0, 100)', to: 'text(block, 0, 99)' },
  make,
  seeds: layerSeeds,
  mutate: (bytes, random, other) =>
    random.chance(0.3)
      ? mutatePax(bytes, random)
      : random.chance(0.7)
        ? mutateTar(bytes, random)
        : mutateBytes(bytes, random, other),
  parse,
  canonical,
  judge,
  peer: gnuTar,
};
