import type { Random } from '../random.ts';

/** Written from the description of the format (POSIX "pax", GNU tar manual) and shares nothing with our own writer. */
export interface Fields {
  readonly name?: string;
  readonly mode?: string;
  readonly uid?: string;
  readonly gid?: string;
  readonly size?: string;
  readonly mtime?: string;
  readonly type?: string;
  readonly link?: string;
  readonly magic?: string;
  readonly major?: string;
  readonly minor?: string;
  readonly prefix?: string;
}

/** Where each field stands: first byte and length. */
export const PLACES: Readonly<Record<keyof Fields, readonly [number, number]>> = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  mtime: [136, 12],
  type: [156, 1],
  link: [157, 100],
  magic: [257, 8],
  major: [329, 8],
  minor: [337, 8],
  prefix: [345, 155],
};

export function sumUp(block: Buffer): void {
  block.write('        ', 148, 'latin1');
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
}

export function header(fields: Fields): Buffer {
  const block = Buffer.alloc(512);
  const all = { mode: '0000644', magic: 'ustar\x0000', type: '0', ...fields };
  for (const [key, text] of Object.entries(all)) {
    const [at, length] = PLACES[key as keyof Fields];
    if (text.length > length) throw new Error(`${key} is too long`);
    block.write(text, at, 'latin1');
  }
  sumUp(block);
  return block;
}

/** Blocks of a body: filled up to 512 bytes. */
export function filled(body: Buffer): Buffer {
  return Buffer.concat([body, Buffer.alloc(Math.ceil(body.length / 512) * 512 - body.length)]);
}

export function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}

/** GNU's way for numbers that octal digits cannot hold. */
export function base256(value: bigint, length: number): string {
  const bytes = Buffer.alloc(length);
  for (let index = length - 1, rest = value; index >= 0; index--, rest >>= 8n)
    bytes[index] = Number(rest & 0xffn);
  bytes[0] = (bytes[0] as number) | 0x80;
  return bytes.toString('latin1');
}

export function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  for (let length = rest.length; ; length++) {
    const text = `${length}${rest}`;
    if (text.length === length) return text;
  }
}

export function extension(type: string, text: string): Buffer {
  const body = Buffer.from(text, 'latin1');
  return Buffer.concat([header({ name: 'x', type, size: octal(body.length, 11) }), filled(body)]);
}

const NUMBERS = ['', '0', '7777777', '0000001', ' 17 \0', '8', 'x', '-1'];

export function headers(bytes: Buffer): readonly number[] {
  const heads: number[] = [];
  for (let at = 0; at + 512 <= bytes.length; at += 512)
    if (bytes.toString('latin1', at + 257, at + 262) === 'ustar') heads.push(at);
  return heads;
}

const KEYS = [
  ...['path', 'linkpath', 'size', 'uid', 'gid', 'mtime', 'comment', 'SCHILY.xattr.user.y', 'a\0b', ''],
  ...['major', 'minor', 'name', 'realsize', 'size', 'map', 'numblocks', 'offset', 'numbytes', 'x'].map(
    (one) => `GNU.sparse.${one}`,
  ),
];
const PAX_VALUES = [
  ...['', '0', '1', '512', 'x', '-1', '-1.', '1.5', '9'.repeat(15), '9'.repeat(16), '9'.repeat(17), 'a\0b'],
  ...['0,1', '0,1,2', '0,3,2,3', '0,9999', '1,', '5,0,5,0', '70000', '200000000'],
];

/** A record of an extension added, changed or left out, or a byte of one; lengths stay right but for the byte. */
export function mutatePax(bytes: Buffer, random: Random): Buffer {
  const all = headers(bytes);
  const found = all.filter((at) => bytes[at + 156] === 0x78 && bytes[at + 124] === 0x30);
  if (found.length === 0 || random.chance(0.1)) {
    const at = random.pick([0, ...all]);
    const made = extension(
      random.pick(['x', 'x', 'g', 'L', 'K']),
      paxRecord(random.pick(KEYS), random.pick(PAX_VALUES)),
    );
    return Buffer.concat([bytes.subarray(0, at), made, bytes.subarray(at)]);
  }
  const at = random.pick(found);
  const size = Number.parseInt(bytes.toString('latin1', at + 124, at + 135), 8) || 0;
  const end = at + 512 + Math.ceil(size / 512) * 512;
  const body = Buffer.from(bytes.subarray(at + 512, at + 512 + size));
  if (random.chance(0.2) && body.length > 0) {
    body[random.below(body.length)] = random.pick([0x20, 0x30, 0x39, 0x3d, 0x0a, 0]);
    return Buffer.concat([bytes.subarray(0, at + 512), filled(body), bytes.subarray(end)]);
  }
  const records: (readonly [string, string])[] = [];
  for (const [, key = '', value = ''] of body.toString('latin1').matchAll(/[0-9]+ ([^=\n]*)=([^\n]*)\n/g))
    records.push([key, value]);
  const index = random.below(records.length + 1);
  const old = records[index]?.[0] ?? random.pick(KEYS);
  records.splice(index, random.below(2), [
    random.chance(0.7) ? old : random.pick(KEYS),
    random.pick(PAX_VALUES),
  ]);
  const made = extension('x', records.map(([key, value]) => paxRecord(key, value)).join(''));
  return Buffer.concat([bytes.subarray(0, at), made, bytes.subarray(end)]);
}

/** A change of one field with its checksum put right, or of the order of blocks. */
export function mutateTar(bytes: Buffer, random: Random): Buffer {
  const heads = headers(bytes);
  if (heads.length === 0) return bytes;
  const at = random.pick(heads);
  if (random.chance(0.15)) {
    const block = bytes.subarray(at, at + 512 * (1 + random.below(3)));
    const to = random.pick(heads);
    return Buffer.concat([bytes.subarray(0, to), block, bytes.subarray(to)]);
  }
  const copy = Buffer.from(bytes);
  const key = random.pick(Object.keys(PLACES) as (keyof Fields)[]);
  const [start, length] = PLACES[key];
  const field = copy.subarray(at + start, at + start + length);
  if (key === 'type') field.write(random.pick([...'0123456\0LKxgSV7']), 'latin1');
  else if (key === 'magic')
    field.write(
      random.pick(['ustar\x0000', 'ustar\0  ', 'ustar  \0', '\0\0\0\0\0\0\0\0', 'ustar 00']),
      'latin1',
    );
  else if (length === 100 || length === 155) {
    field.fill(0);
    field.write(random.text('ab/.\xe9\xff', random.pick([0, 1, 5, length - 1, length])), 'latin1');
  } else if (random.chance(0.2)) {
    field.write(base256(random.pick([0n, 1n, -1n, -5n, 2n ** 40n, 2n ** 53n, 2n ** 62n]), length), 'latin1');
  } else if (random.chance(0.5)) {
    field.fill(0);
    field.write(random.pick(NUMBERS).slice(0, length), 'latin1');
  } else field[random.below(length)] = random.pick([0x30, 0x31, 0x37, 0x20, 0]);
  sumUp(copy.subarray(at, at + 512));
  return copy;
}
