import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TarEntry } from '../../../src/oci/layer/index.ts';
import type { Peer, Verdict } from '../types.ts';
import { filled, sumUp } from './tar-bytes.ts';

export interface Read {
  readonly entry: TarEntry;
  readonly body: Buffer;
}

const LIST = ['--list', '--verbose', '--numeric-owner', '--full-time', '--quoting-style=c'];
const BODIES = ['--extract', '--to-stdout'];
const LINE =
  /^([-dlhbcp])([rwxsStT-]{9}) +(-?\d+)\/(-?\d+) +(-?\d+(?:,-?\d+)?) (\S+ \S+) +"((?:[^"\\]|\\.)*)"(?: (?:->|link to) "((?:[^"\\]|\\.)*)")?$/;
const LETTERS: Readonly<Record<TarEntry['type'], string>> = {
  file: '-',
  directory: 'd',
  symlink: 'l',
  link: 'h',
  char: 'c',
  block: 'b',
  fifo: 'p',
};
/** Seconds that a `Date` can hold. */
const FARTHEST = 8.64e12;

interface Asked {
  readonly value: readonly Read[];
  readonly bytes: Buffer;
  /** What GNU tar complains about. */
  readonly said: string;
}

interface Difference {
  readonly name: string;
  /** GNU tar lists the same and complains. */
  readonly listed?: true;
  when(asked: Asked): boolean;
}

/** Of a PAX record; GNU tar then takes what the header itself has. */
const RECORDED = /Extended header [ug]id=-?[0-9]+ is out of range/;

/** Differences on purpose: each with a look at the input, so that nothing else passes for one. */
const APART: readonly Difference[] = [
  {
    name: 'an owner of more than 32 bits, of which the kernel takes 32 (L18)',
    listed: true,
    when: ({ said }) => /is out of [ug]id_t range/.test(said) || RECORDED.test(said),
  },
  {
    name: 'an empty name, which the checks of a layer refuse (L10)',
    listed: true,
    when: ({ said }) => /Substituting `\.' for empty/.test(said),
  },
  {
    name: 'a record for all later entries (L6)',
    when: ({ bytes }) => heads(bytes).some(({ type }) => type === 'g'),
  },
  {
    name: 'a number after NULs, which GNU tar takes for none; as Docker',
    when: ({ bytes }) =>
      heads(bytes).some(({ numbers }) => numbers.some((field) => /^\0[\0 ]*[0-7]/.test(field))),
  },
  {
    name: 'a file whose name ends in a slash, a directory only in the oldest form, as with Docker',
    when: ({ value }) => value.some(({ entry }) => entry.type === 'file' && entry.path.endsWith('/')),
  },
  {
    name: 'a size of what has no body, which takes no room, as with Docker',
    when: ({ value, bytes }) =>
      heads(bytes).some(({ type, size }) => /[1-6]/.test(type) && !/^[0 \0]*$/.test(size)) ||
      (value.some(({ entry }) => entry.type !== 'file') && /size=/.test(bytes.toString('latin1'))),
  },
  {
    name: 'a PAX record with nothing in it, which counts for nothing, as with Docker',
    when: ({ bytes }) => /[0-9]+ [a-z]+=\n/.test(bytes.toString('latin1')),
  },
  {
    name: 'a piece of a sparse file that ends inside a block, which GNU tar takes for filled up; as Docker',
    when: ({ bytes }) =>
      lengths(bytes)
        .slice(0, -1)
        .some((length) => length % 512 !== 0),
  },
  {
    name: 'a sparse map before a header of an older form, with which GNU tar does not read it; as Docker',
    when: ({ bytes }) => bytes.includes('GNU.sparse.') && heads(bytes).some(({ isPosix }) => !isPosix),
  },
  {
    name: 'a sparse file without any piece, of which GNU tar reads nothing; as Docker',
    when: ({ said }) => /invalid GNU\.sparse\.map=$/m.test(said),
  },
  {
    name: 'a PAX record that a later one of the same name replaces, whatever it says; as Docker',
    listed: true,
    when: ({ bytes, said }) => {
      const [, name] = /^tar: Malformed extended header: invalid ([a-z]+)=/m.exec(said) ?? [];
      return name !== undefined && bytes.toString('latin1').split(`${name}=`).length > 2;
    },
  },
  {
    name: 'a device number that Linux has not, which the checks of a layer refuse (L20)',
    when: ({ said }) => /is out of (major|minor)_t range/.test(said),
  },
  {
    name: 'a number of pieces that a later record replaces, for which GNU tar has no memory; as Docker',
    when: ({ bytes, said }) =>
      /memory exhausted/.test(said) && bytes.toString('latin1').split('GNU.sparse.numblocks=').length > 2,
  },
  {
    name: 'a long name without a NUL at its end, which GNU tar reads to the end of the block; as Docker',
    when: ({ bytes }) =>
      heads(bytes).some(({ at, type, size }) => {
        const end = at + 512 + Number.parseInt(size, 8);
        return /[KL]/.test(type) && !bytes.subarray(at + 512, end).includes(0) && bytes[end] !== 0;
      }),
  },
  {
    name: 'a PAX record that counts for nothing: empty, or before another header of records',
    when: ({ bytes, said }) =>
      /^(tar: .*([Ee]xtended header:? .*|Skipping to next header|A lone zero block at .*)\n)+$/.test(said) &&
      (/x[xLK]*x/.test(
        heads(bytes)
          .map(({ type }) => type)
          .join(''),
      ) ||
        /header:? .*(GNU\.sparse\.|=$)/m.test(said)),
  },
];

interface Head {
  /** Where it stands. */
  readonly at: number;
  readonly type: string;
  readonly isPosix: boolean;
  readonly size: string;
  /** Mode, owner, size, time and device as they stand. */
  readonly numbers: readonly string[];
}

const NUMBERS: readonly (readonly [start: number, end: number])[] = [
  [100, 108],
  [108, 116],
  [116, 124],
  [124, 136],
  [136, 148],
  [329, 337],
  [337, 345],
];

/** Blocks that have the checksum of a header. */
function heads(bytes: Buffer): readonly Head[] {
  const found: Head[] = [];
  for (let at = 0; at + 512 <= bytes.length; at += 512) {
    const block = Buffer.from(bytes.subarray(at, at + 512));
    const stated = block.toString('latin1', 148, 154);
    sumUp(block);
    if (block.toString('latin1', 148, 154) === stated)
      found.push({
        at,
        type: block.toString('latin1', 156, 157),
        isPosix: block.toString('latin1', 257, 263) === 'ustar\0',
        size: block.toString('latin1', 124, 136),
        numbers: NUMBERS.map(([start, end]) => block.toString('latin1', start, end)),
      });
  }
  return found;
}

/** Of the pieces of sparse files, in all three ways to write their map. */
function lengths(bytes: Buffer): readonly number[] {
  const text = bytes.toString('latin1');
  const maps = [...text.matchAll(/GNU\.sparse\.map=([0-9,]*)\n|\0\d+\n((?:\d+\n\d+\n)+)\0/g)];
  const pairs = maps.flatMap(([, record, body]) =>
    (record ?? body ?? '').split(/[,\n]/).filter((one) => one !== ''),
  );
  const pieces = [...text.matchAll(/GNU\.sparse\.numbytes=(\d+)\n/g)].map(([, length]) => Number(length));
  return [...pairs.map(Number).filter((_, index) => index % 2 === 1), ...pieces];
}

function run(args: readonly string[], input: Buffer): { readonly out: Buffer; readonly said: string } {
  const { stdout, stderr, error } = spawnSync('tar', [...args, '--absolute-names', '--file=-'], {
    input,
    env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' },
    cwd: '/',
    maxBuffer: 1 << 28,
  });
  if (error !== undefined && (error as { code?: string }).code !== 'EPIPE') throw error;
  const said = stderr
    .toString('latin1')
    // A keyword ends at the equals sign, and may well have a line feed in it.
    .replace(/^tar: (Ignoring unknown extended header keyword '[^=]*?'|Exiting with .*)\n/gm, '');
  return { out: stdout, said };
}

const ESCAPES: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

function unquoted(text: string): string {
  return text.replace(/\\([0-7]{1,3}|.)/g, (_, what: string) =>
    /^[0-7]/.test(what) ? String.fromCharCode(Number.parseInt(what, 8)) : (ESCAPES[what] ?? what),
  );
}

/** `rwsr-xr-t` as a number. */
function modeOf(text: string): number {
  let mode = 0;
  for (const [index, one] of [...text].entries()) {
    if (/[rwxst]/.test(one)) mode |= 0o400 >> index;
    if (/[sStT]/.test(one)) mode |= 0o4000 >> ((index - 2) / 3);
  }
  return mode;
}

function listed(line: string): string {
  const match = LINE.exec(line);
  if (match === null) return line;
  const [, letter, mode, uid, gid, size, time, name = '', link = ''] = match;
  const target = letter === 'h' ? bare(unquoted(link)) : unquoted(link);
  return JSON.stringify([letter, modeOf(mode as string), uid, gid, size, time, bare(unquoted(name)), target]);
}

/** Slashes at the end do not count, and what is left of nothing is listed as a dot. */
function bare(name: string): string {
  return name.replace(/\/+$/, '') || '.';
}

function ours({ entry }: Read): string {
  const { type, mode, uid, gid, size, devMajor, devMinor, path, linkPath } = entry;
  const what = type === 'char' || type === 'block' ? `${devMajor},${devMinor}` : `${size}`;
  const link = type === 'link' ? bare(linkPath) : linkPath;
  return JSON.stringify([
    LETTERS[type],
    mode,
    `${uid}`,
    `${gid}`,
    what,
    timeOf(entry),
    bare(path) || '.',
    link,
  ]);
}

/** An owner of more than 32 bits is listed as 4294967295, or as another one where it comes from a record. */
function isSame(own: string, theirs: string | undefined, said: string): boolean {
  if (own === theirs || theirs === undefined) return own === theirs;
  const [one, other] = [own, theirs].map((line) =>
    line.startsWith('[') ? (JSON.parse(line) as unknown[]) : [],
  );
  return (one as unknown[]).every((field, index) => {
    const isBig = (index === 2 || index === 3) && !(Number(field) >= 0 && Number(field) < 2 ** 32);
    const isOther = other?.[index] === '4294967295' || RECORDED.test(said);
    return field === other?.[index] || (isBig && isOther) || field === 'far';
  });
}

function timeOf({ mtime }: TarEntry): string {
  if (Math.abs(mtime.seconds) > FARTHEST) return 'far';
  // What is 1.25 seconds before 1970 is listed as 59.25: reading is right, the list counts back from the second.
  const isBack = mtime.seconds < 0 && mtime.nanos > 0;
  const seconds = isBack ? mtime.seconds + 1 : mtime.seconds;
  const nanos = isBack ? 1_000_000_000 - mtime.nanos : mtime.nanos;
  const date = new Date(seconds * 1000);
  const rest = date.toISOString().replace(/^.*-(..)-(..)T(.{8}).*$/, '-$1-$2 $3');
  const fraction = nanos === 0 ? '' : `.${String(nanos).padStart(9, '0').replace(/0+$/, '')}`;
  return `${date.getUTCFullYear()}`.padStart(4, '0') + rest + fraction;
}

function judge(value: readonly Read[], archive: Buffer): Verdict {
  // We ask for no padding and no zero blocks at the end, and GNU tar complains where they are not there.
  const bytes = Buffer.concat([filled(archive), Buffer.alloc(1024)]);
  const { out, said } = run(LIST, bytes);
  const theirs = out.toString('latin1').split('\n').slice(0, -1).map(listed);
  const own = value.map(ours);
  const at = own.findIndex((line, index) => !isSame(line, theirs[index], said));
  const where = at === -1 && theirs.length > own.length ? own.length : at;
  const problem = where === -1 ? bodies(value, bytes) : `${theirs[where]} where we have ${own[where]}`;
  if (problem === undefined && said === '') return undefined;
  const asked = { value, bytes, said };
  const apart = APART.find(({ listed, when }) => !(listed && problem !== undefined) && when(asked));
  return apart === undefined ? { problem: `${problem ?? ''}; it says ${said}` } : { apart: apart.name };
}

function bodies(value: readonly Read[], bytes: Buffer): string | undefined {
  if (bytes.includes('GNU.sparse.')) return inFolder(value, bytes);
  const own = Buffer.concat(value.map(({ body }) => body));
  const { out } = run(BODIES, bytes);
  return out.equals(own) ? undefined : `${out.length} bytes of bodies where we have ${own.length}`;
}

/** Sparse files come out of GNU tar whole on a disk only; written are plain names of their own, and nothing else. */
function inFolder(value: readonly Read[], bytes: Buffer): string | undefined {
  const names = new Set(value.map(({ entry }) => entry.path));
  const isPlain = ({ entry }: Read): boolean =>
    entry.type === 'file' && /^[^/.][^/]{0,250}$/s.test(entry.path);
  if (names.size < value.length || !value.every(isPlain)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'skycap-fuzz-'));
  try {
    run(['--extract', '--no-same-owner', `--directory=${folder}`], bytes);
    const at = (path: string): Buffer => Buffer.from(join(folder, path), 'latin1');
    // GNU tar ends a map with an empty piece at the end of the file, and without one leaves the last hole out.
    const dense = (file: Buffer): Buffer => file.subarray(0, file.findLastIndex((byte) => byte !== 0) + 1);
    const wrong = value.find(({ entry, body }) => !dense(readFileSync(at(entry.path))).equals(dense(body)));
    return wrong === undefined ? undefined : `another body of ${wrong.entry.path}`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const gnuTar: Peer<readonly Read[]> = {
  name: 'GNU tar',
  every: 8,
  absent: () => {
    const { stdout } = spawnSync('tar', ['--version'], { encoding: 'latin1' });
    return stdout?.includes('GNU tar') === true
      ? undefined
      : 'GNU tar, the judge of what is read, is not here';
  },
  judge,
};
