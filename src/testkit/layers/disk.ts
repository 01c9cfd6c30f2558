import { execFileSync } from 'node:child_process';
import type { OracleEntry } from './oracle.ts';

/** `find -printf` knows everything but contents, attributes and device numbers; all names end in NUL. */
const SCAN = String.raw`
cd "$1"
find . -mindepth 1 -printf '%P\0%y\0%m\0%U\0%G\0%s\0%T@\0%l\0%i\0' || true
printf 'SECTION-ENDS-HERE'
find . -mindepth 1 -type f -exec sha256sum -z {} + || true
printf 'SECTION-ENDS-HERE'
find . -mindepth 1 \( -type c -o -type b \) -printf '%P\0' -exec stat --printf '%t:%T\0' {} \; || true
printf 'SECTION-ENDS-HERE'
getfattr -R -h -d -m - -e hex --absolute-names . 2>/dev/null || true
`;
const TYPES: Readonly<Record<string, string>> = {
  f: 'file',
  d: 'dir',
  l: 'symlink',
  c: 'char',
  b: 'block',
  p: 'fifo',
};

/** A folder as it stands on disk, in the form of the recorded trees; the root itself is left out. Needs coreutils and attr. */
export function scanTree(folder: string): readonly OracleEntry[] {
  const env = { PATH: process.env.PATH, LC_ALL: 'C' };
  const text = execFileSync('bash', ['--norc', '-euc', SCAN, 'scan', folder], {
    encoding: 'latin1',
    maxBuffer: 2 ** 28,
    env,
  });
  const [names = '', sums = '', devices = '', attributes = ''] = text.split('SECTION-ENDS-HERE');
  const sha256 = new Map(
    sums.split('\0').map((line) => [line.slice('./'.length + 66), line.slice(0, 64)] as const),
  );
  const numbers = new Map(pairs(devices));
  const xattrs = attributesOf(attributes);
  const fields = names.split('\0');
  const links = new Map<string, number>();
  for (let at = 8; at < fields.length; at += 9) {
    const inode = fields[at] as string;
    links.set(inode, (links.get(inode) ?? 0) + 1);
  }
  const out: OracleEntry[] = [];
  for (let at = 0; at + 8 < fields.length; at += 9) {
    const [path, kind, mode, uid, gid, size, mtime, target, inode] = fields.slice(at, at + 9) as string[];
    const type = TYPES[kind ?? ''] ?? kind ?? '';
    const device = numbers.get(path ?? '');
    const own = xattrs.get(path ?? '');
    out.push({
      path: '',
      path_b64: base64(path ?? ''),
      type,
      mode: (mode ?? '').padStart(4, '0'),
      uid: Number(uid),
      gid: Number(gid),
      mtime: nanoseconds(mtime ?? ''),
      ...(type === 'file' ? { size: Number(size), sha256: sha256.get(path ?? '') ?? 'unread' } : {}),
      ...(type === 'symlink' ? { target: '', target_b64: base64(target ?? '') } : {}),
      ...(device === undefined
        ? {}
        : {
            dev: device
              .split(':')
              .map((part) => Number.parseInt(part, 16))
              .join(':'),
          }),
      ...(type !== 'dir' && (links.get(inode ?? '') ?? 0) > 1 ? { hardlink: Number(inode) } : {}),
      ...(own === undefined ? {} : { xattrs: own }),
    });
  }
  return out;
}

function pairs(text: string): readonly (readonly [string, string])[] {
  const fields = text.split('\0');
  return Array.from({ length: Math.floor(fields.length / 2) }, (_, at) => [
    fields[at * 2] as string,
    fields[at * 2 + 1] as string,
  ]);
}

function attributesOf(text: string): ReadonlyMap<string, Record<string, string>> {
  const found = new Map<string, Record<string, string>>();
  for (const block of text.split('\n\n')) {
    const [head, ...lines] = block.split('\n').filter((line) => line !== '');
    if (head === undefined) continue;
    const path = unescaped(head.slice('# file: '.length)).replace(/^\.\/?/, '');
    const own: Record<string, string> = {};
    for (const line of lines) {
      const equals = line.indexOf('=');
      const name = unescaped(equals === -1 ? line : line.slice(0, equals));
      own[name] = Buffer.from(equals === -1 ? '' : line.slice(equals + 3), 'hex').toString('base64');
    }
    if (path !== '') found.set(path, own);
  }
  return found;
}

/** getfattr writes bytes that are not plain as three octal digits. */
function unescaped(name: string): string {
  return name.replaceAll(/\\([0-7]{3})/g, (_all, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

function nanoseconds(text: string): string {
  const [whole = '0', fraction = ''] = text.split('.');
  const nanos = BigInt(fraction.slice(0, 9).padEnd(9, '0'));
  return String(BigInt(whole) * 1_000_000_000n + (whole.startsWith('-') ? -nanos : nanos));
}

function base64(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('base64');
}
