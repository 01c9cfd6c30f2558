import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TarEntry } from '../../../src/oci/layer/index.ts';
import type { Peer, Verdict } from '../types.ts';
import { listable, RULES, type Rule, rewrite } from './tar-apart.ts';
import { filled } from './tar-bytes.ts';

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
const SEVERAL = 'several of these at once';

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
  const what =
    type === 'char' || type === 'block' ? `${listable(devMajor)},${listable(devMinor)}` : `${size}`;
  const link = type === 'link' ? bare(linkPath) : linkPath;
  return JSON.stringify([
    LETTERS[type],
    mode,
    `${listable(uid)}`,
    `${listable(gid)}`,
    what,
    timeOf(entry),
    bare(path) || '.',
    link,
  ]);
}

/** A time that no `Date` can hold is not compared. */
function isSame(own: string, theirs: string | undefined): boolean {
  if (own === theirs || theirs?.startsWith('[') !== true) return own === theirs;
  const others = JSON.parse(theirs) as unknown[];
  return (JSON.parse(own) as unknown[]).every((field, index) => field === others[index] || field === 'far');
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
  const problem = ask(value, bytes);
  if (problem === undefined) return undefined;
  const { changing } = rewrite(bytes, new Set(Object.keys(RULES) as Rule[]));
  const one = changing.find((rule) => agrees(value, bytes, [rule]));
  if (one !== undefined) return { apart: RULES[one] };
  return changing.length > 1 && agrees(value, bytes, changing) ? { apart: SEVERAL } : { problem };
}

/** By the rules, GNU tar reads just what we do, and has nothing to say. */
function agrees(value: readonly Read[], bytes: Buffer, rules: readonly Rule[]): boolean {
  const { bytes: again } = rewrite(bytes, new Set(rules));
  return ask(value, Buffer.concat([again, Buffer.alloc(1024)])) === undefined;
}

function ask(value: readonly Read[], bytes: Buffer): string | undefined {
  const { out, said } = run(LIST, bytes);
  const theirs = out.toString('latin1').split('\n').slice(0, -1).map(listed);
  const own = value.map(ours);
  const at = own.findIndex((line, index) => !isSame(line, theirs[index]));
  const where = at === -1 && theirs.length > own.length ? own.length : at;
  const problem = where === -1 ? bodies(value, bytes) : `${theirs[where]} where we have ${own[where]}`;
  return problem === undefined && said === '' ? undefined : `${problem ?? ''}; it says ${said}`;
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
    const wrong = value.find(
      ({ entry, body }) =>
        !existsSync(at(entry.path)) || !dense(readFileSync(at(entry.path))).equals(dense(body)),
    );
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
