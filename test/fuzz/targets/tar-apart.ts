import { base256, extension, filled, octal, PLACES, paxRecord, sumUp } from './tar-bytes.ts';

/**
 * What GNU tar reads otherwise than we do on purpose. Each rule writes the archive once more, and what it is about in
 * the one way that has only one meaning, ours; GNU tar must then read just what we do. So no rule hides anything else.
 */
export const RULES = {
  global: 'a record for all later entries (L6)',
  owner: 'an owner of more than 32 bits, of which the kernel takes 32 (L18)',
  device: 'a device number that Linux has not, which the checks of a layer refuse (L20)',
  empty: 'an empty name, which the checks of a layer refuse (L10)',
  room: 'a size of what has no body, which takes no room, as with Docker',
  slash: 'a file whose name ends in a slash, a directory only in the oldest form, as with Docker',
  number: 'a number in another form than GNU tar knows, blanks and NULs before it or only blanks; as Docker',
  nothing: 'a PAX record or a long name with nothing in it, which counts for nothing, as with Docker',
  repeated: 'a PAX record that a later one of the same name replaces, whatever it says; as Docker',
  unread: 'a PAX record that says nothing to us, in a form of its own; as Docker',
  earlier: 'PAX records before others for the same entry, which count for nothing; as Docker',
  fraction: 'a fraction of a second finer than nanoseconds, which is cut; as Docker',
  prefix: 'a first part of a name where old GNU headers have times, as Go once wrote it; as Docker',
  end: 'a long name without a NUL at its end, which GNU tar reads to the end of the block; as Docker',
  pieces: 'a piece of a sparse file that ends inside a block, which GNU tar takes for filled up; as Docker',
  older: 'a sparse map before a header of an older form, with which GNU tar does not read it; as Docker',
  map: 'records of a sparse map in another order, or with others that its version has not; as Docker',
} as const;

export type Rule = keyof typeof RULES;
export type Rules = ReadonlySet<Rule>;

/** What GNU tar is told, and we are taken for saying, where it does not know the number: the bits that it can list. */
export function listable(value: number): number {
  const isKnown = value >= 0 && value < 2 ** 32;
  return isKnown ? value : Number(BigInt.asUintN(31, BigInt(value)));
}

interface Part {
  readonly head: Buffer;
  readonly body: Buffer;
}

type Records = readonly (readonly [key: string, value: string])[];

interface Entry {
  readonly longs: readonly Part[];
  /** Of the last extension, if there is one. */
  readonly records: Records;
  readonly earlier: readonly Part[];
  readonly main: Part;
}

type Change = (entry: Entry) => Entry;

function field({ head }: Part, key: keyof typeof PLACES): Buffer {
  const [at, length] = PLACES[key];
  return head.subarray(at, at + length);
}

function textOf(bytes: Buffer): string {
  return bytes.toString('latin1').replace(/\0.*$/s, '');
}

function flag(part: Part): string {
  return field(part, 'type').toString('latin1');
}

function numberOf(bytes: Buffer): bigint {
  if ((bytes[0] as number) > 127)
    return BigInt.asIntN(8 * bytes.length - 1, BigInt(`0x${bytes.toString('hex')}`));
  const [, digits] = /^[\0 ]*([0-7]*)/.exec(bytes.toString('latin1')) ?? [];
  return BigInt(`0o${digits || 0}`);
}

function formOf(value: bigint, length: number): string {
  const digits = octal(Number(value), length - 1);
  return value >= 0 && digits.length < length ? `${digits}\0` : base256(value, length);
}

/** The header with other fields and its sum put right. */
function changed(part: Part, fields: Partial<Record<keyof typeof PLACES, string>>): Part {
  const made = { head: Buffer.from(part.head), body: part.body };
  for (const [key, text] of Object.entries(fields))
    field(made, key as keyof typeof PLACES)
      .fill(0)
      .write(text, 'latin1');
  sumUp(made.head);
  return made;
}

function recordsOf(body: Buffer): Records {
  const text = body.toString('latin1');
  const found: [string, string][] = [];
  for (let at = 0; at < text.length; ) {
    const length = Number.parseInt(text.slice(at), 10);
    const record = text.slice(text.indexOf(' ', at) + 1, at + length - 1);
    const equals = record.indexOf('=');
    found.push([record.slice(0, equals), record.slice(equals + 1)]);
    at += length;
  }
  return found;
}

function last(records: Records, key: string): string | undefined {
  return records.findLast(([one]) => one === key)?.[1];
}

/** An empty one counts for nothing. */
function said(entry: Entry, key: string): string | undefined {
  return last(entry.records, key) || undefined;
}

function isPosix({ main }: Entry): boolean {
  return field(main, 'magic').toString('latin1').startsWith('ustar\0');
}

/** What begins in the places of the two times is text, and neither of them a number. */
function hasOddPrefix({ main }: Entry): boolean {
  const prefix = field(main, 'prefix');
  if (field(main, 'magic').toString('latin1') !== 'ustar  \0' || /[^\0-\x7f]/.test(textOf(prefix)))
    return false;
  return [0, 12].some((at) => {
    const time = prefix.toString('latin1', at, at + 12);
    return (
      /^[\x01-\x7f]/.test(time) &&
      !/^[0-7]*$/.test(textOf(Buffer.from(time.replace(/^[ \0]+|[ \0]+$/g, ''), 'latin1')))
    );
  });
}

/** Before a sparse map has its say. */
function plainName(entry: Entry): string {
  const long = entry.longs.findLast((part) => flag(part) === 'L');
  const prefix = isPosix(entry) || hasOddPrefix(entry) ? textOf(field(entry.main, 'prefix')) : '';
  const short = `${prefix === '' ? '' : `${prefix}/`}${textOf(field(entry.main, 'name'))}`;
  return said(entry, 'path') ?? ((long === undefined ? '' : textOf(long.body)) || short);
}

function nameOf(entry: Entry): string {
  return (isSparse(entry) ? said(entry, 'GNU.sparse.name') : undefined) ?? plainName(entry);
}

function isFile(entry: Entry): boolean {
  const type = flag(entry.main);
  return type === '0' || (type === '\0' && !plainName(entry).endsWith('/'));
}

function named(entry: Entry, name: string): Entry {
  const records = entry.records.filter(([key]) => key !== 'path' && key !== 'GNU.sparse.name');
  return {
    ...entry,
    longs: entry.longs.filter((part) => flag(part) !== 'L'),
    records: name.length > 100 ? [...records, ['path', name]] : records,
    main: changed(entry.main, { name: name.slice(0, 100), prefix: '' }),
  };
}

const PIECES = ['GNU.sparse.offset', 'GNU.sparse.numbytes'];
const READ = /^(?:path|linkpath|size|uid|gid|mtime|GNU\.sparse\..*)$/;

function isNew({ records }: Entry): boolean {
  return last(records, 'GNU.sparse.major') === '1' && last(records, 'GNU.sparse.minor') === '0';
}

function isSparse(entry: Entry): boolean {
  return isNew(entry) || entry.records.some(([key]) => key === 'GNU.sparse.map' || PIECES.includes(key));
}

/** Offsets and lengths in turn, and where in the body the bytes begin. */
function mapOf(entry: Entry): { readonly numbers: readonly string[]; readonly start: number } {
  if (!isNew(entry)) {
    const pieces = entry.records.filter(([key]) => PIECES.includes(key)).map(([, value]) => value);
    const map = last(entry.records, 'GNU.sparse.map') ?? '';
    const numbers = pieces.length > 0 ? pieces : map.split(',').filter((one) => one !== '');
    return { numbers, start: 0 };
  }
  const lines = entry.main.body.toString('latin1').split('\n');
  const all = lines.slice(0, 1 + 2 * Number(lines[0]));
  return { numbers: all.slice(1), start: Math.ceil((all.join('\n').length + 1) / 512) * 512 };
}

const isOut = (value: bigint, limit: bigint): boolean => value < 0n || value >= limit;

function ids(part: Part, keys: readonly (keyof typeof PLACES)[]): Part {
  const out = keys.filter((key) => isOut(numberOf(field(part, key)), 2n ** 32n));
  const told = out.map((key) => {
    const value = BigInt(listable(Number(numberOf(field(part, key)))));
    return [key, formOf(value, field(part, key).length)] as const;
  });
  return out.length === 0 ? part : changed(part, Object.fromEntries(told));
}

/** Digits with at most blanks before them, nothing at all, or two's complement. */
const KNOWN = /^(?: *[0-7]+(?:[ \0].*)?|\0*|[\x80\xff].*)$/s;

function plainNumbers(part: Part, keys: readonly (keyof typeof PLACES)[]): Part {
  const odd = keys.filter((key) => !KNOWN.test(field(part, key).toString('latin1')));
  const told = odd.map((key) => {
    const bytes = field(part, key);
    return [key, formOf(numberOf(bytes), bytes.length)] as const;
  });
  return odd.length === 0 ? part : changed(part, Object.fromEntries(told));
}

const CHANGES: Readonly<Record<Exclude<Rule, 'global'>, Change>> = {
  repeated: (entry) => ({
    ...entry,
    records: entry.records.filter(
      ([key], at) => PIECES.includes(key) || entry.records.findLastIndex(([one]) => one === key) === at,
    ),
  }),
  nothing: (entry) => ({
    ...entry,
    longs: entry.longs.filter((part) => {
      const counting = entry.longs.findLast((one) => flag(one) === flag(part));
      return counting !== undefined && textOf(counting.body) !== '';
    }),
    records: entry.records.filter(([, value]) => value !== ''),
  }),
  unread: (entry) => ({ ...entry, records: entry.records.filter(([key]) => READ.test(key)) }),
  earlier: (entry) => ({ ...entry, earlier: [] }),
  fraction: (entry) => ({
    ...entry,
    records: entry.records.map(([key, value]) => [
      key,
      key === 'mtime' ? value.replace(/(\.[0-9]{9})[0-9]+$/, '$1') : value,
    ]),
  }),
  prefix: (entry) =>
    hasOddPrefix(entry) ? { ...entry, main: changed(entry.main, { magic: 'ustar\x0000' }) } : entry,
  end: (entry) => ({
    ...entry,
    longs: entry.longs.map((part) => {
      const body = Buffer.from(`${textOf(part.body)}\0`, 'latin1');
      return body.equals(part.body)
        ? part
        : { head: extension(flag(part), `${body}`).subarray(0, 512), body };
    }),
  }),
  number: (entry) => ({
    ...entry,
    longs: entry.longs.map((part) => plainNumbers(part, ['size'])),
    main: plainNumbers(entry.main, ['mode', 'uid', 'gid', 'size', 'mtime', 'major', 'minor']),
  }),
  owner: (entry) => ({
    ...entry,
    records: entry.records.map(([key, value]) => [
      key,
      /^[ug]id$/.test(key) && /^[0-9]+$/.test(value) ? `${listable(Number(value))}` : value,
    ]),
    main: ids(entry.main, ['uid', 'gid']),
  }),
  device: (entry) => ({
    ...entry,
    main: /[34]/.test(flag(entry.main)) ? ids(entry.main, ['major', 'minor']) : entry.main,
  }),
  empty: (entry) => {
    const isLink = flag(entry.main) === '1' && field(entry.main, 'link')[0] === 0;
    const linked = isLink ? { ...entry, main: changed(entry.main, { link: '.' }) } : entry;
    return nameOf(entry) === '' ? named(linked, '.') : linked;
  },
  slash: (entry) => {
    if (flag(entry.main) === '\0' && !isFile(entry))
      return { ...entry, main: changed(entry.main, { type: '5' }) };
    const name = nameOf(entry);
    return isFile(entry) && name.endsWith('/') ? named(entry, name.replace(/\/+$/, '') || '.') : entry;
  },
  room: (entry) =>
    isFile(entry)
      ? entry
      : {
          ...entry,
          records: entry.records.filter(([key]) => key !== 'size'),
          main: changed(entry.main, { size: formOf(0n, 12) }),
        },
  map: (entry) => {
    if (!isSparse(entry)) return entry;
    const { numbers } = mapOf(entry);
    const size = said(entry, 'GNU.sparse.size') ?? said(entry, 'GNU.sparse.realsize') ?? '';
    const name = said(entry, 'GNU.sparse.name');
    const rest = entry.records.filter(([key]) => !key.startsWith('GNU.sparse.'));
    const own: Records = isNew(entry)
      ? [
          ['GNU.sparse.major', '1'],
          ['GNU.sparse.minor', '0'],
          ['GNU.sparse.realsize', size],
        ]
      : [
          ['GNU.sparse.size', size],
          ['GNU.sparse.numblocks', `${numbers.length / 2}`],
          ['GNU.sparse.map', numbers.join(',')],
        ];
    return {
      ...entry,
      records: [...rest, ...own, ...(name === undefined ? [] : [['GNU.sparse.name', name] as const])],
    };
  },
  pieces: (entry) => {
    if (!isSparse(entry)) return entry;
    const { numbers, start } = mapOf(entry);
    const parts = [entry.main.body.subarray(0, start)];
    let at = start;
    for (const length of numbers.filter((_, index) => index % 2 === 1).map(Number)) {
      parts.push(filled(entry.main.body.subarray(at, at + length)));
      at += length;
    }
    const body = Buffer.concat(parts);
    if (body.length - entry.main.body.length < 512) return entry;
    return {
      ...entry,
      records: entry.records.filter(([key]) => key !== 'size'),
      main: { ...changed(entry.main, { size: octal(body.length, 11) }), body },
    };
  },
  older: (entry) => {
    if (!isSparse(entry) || isPosix(entry)) return entry;
    return {
      ...entry,
      main: changed(entry.main, { magic: 'ustar\x0000', prefix: '', major: '', minor: '' }),
    };
  },
};

/** Written once more by the rules; and which of them changed anything. */
export function rewrite(
  bytes: Buffer,
  rules: Rules,
): { readonly bytes: Buffer; readonly changing: readonly Rule[] } {
  const out: Buffer[] = [];
  const changing = new Set<Rule>();
  const order = (Object.keys(CHANGES) as (keyof typeof CHANGES)[]).filter((rule) => rules.has(rule));
  let before: Part[] = [];
  for (let at = 0; at + 512 <= bytes.length; ) {
    const head = bytes.subarray(at, at + 512);
    if (head.every((byte) => byte === 0)) break;
    const stored = Number(numberOf(head.subarray(124, 136)));
    const metas = { longs: before.filter((part) => /[LK]/.test(flag(part))), ...extensions(before) };
    const bare = { ...metas, main: { head, body: Buffer.alloc(0) } };
    const isMeta = /[xgLK]/.test(head.toString('latin1', 156, 157));
    const size = isMeta ? stored : isFile(bare) ? Number(said(bare, 'size') ?? stored) : 0;
    const part = { head, body: bytes.subarray(at + 512, at + 512 + size) };
    at += 512 + Math.ceil(size / 512) * 512;
    if (isMeta) {
      before.push(part);
      continue;
    }
    let entry: Entry = { ...metas, main: part };
    for (const rule of order) {
      const next = CHANGES[rule](entry);
      if (!written(next, before).equals(written(entry, before))) changing.add(rule);
      entry = next;
    }
    if (before.some((one) => flag(one) === 'g')) changing.add('global');
    // The header of an extension is written anew in any case.
    if (before.some((one) => !plainNumbers(one, ['size']).head.equals(one.head))) changing.add('number');
    out.push(written(entry, rules.has('global') ? before.filter((one) => flag(one) !== 'g') : before));
    before = [];
  }
  return { bytes: Buffer.concat(out), changing: [...changing] };
}

function extensions(parts: readonly Part[]): Pick<Entry, 'records' | 'earlier'> {
  const all = parts.filter((part) => flag(part) === 'x');
  const body = all.at(-1)?.body;
  return { records: body === undefined ? [] : recordsOf(body), earlier: all.slice(0, -1) };
}

/** Global records, long names and earlier extensions before the one that counts. */
function written({ longs, records, earlier, main }: Entry, before: readonly Part[]): Buffer {
  const text = records.map(([key, value]) => paxRecord(key, value)).join('');
  return Buffer.concat([
    ...before.filter((part) => flag(part) === 'g').flatMap(whole),
    ...[...longs, ...earlier].flatMap(whole),
    ...(text === '' ? [] : [extension('x', text)]),
    ...whole(main),
  ]);
}

function whole({ head, body }: Part): readonly Buffer[] {
  return [head, filled(body)];
}
