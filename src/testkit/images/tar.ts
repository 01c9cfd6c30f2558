import { encodeEntry, endOfArchive, padding, type TarEntry, toBytes } from '../../oci/layer/index.ts';

export interface TarFile extends Partial<Omit<TarEntry, 'size'>> {
  readonly path: string;
  readonly content?: string | Uint8Array;
}

/** One entry with its body; names are taken as UTF-8 unless `raw` says that they are byte strings already. */
export function tarFile(file: TarFile, options: { readonly raw?: boolean } = {}): Buffer {
  const { content, ...rest } = file;
  const body = Buffer.from(content ?? '');
  const name = (text: string): string => (options.raw === true ? text : toBytes(text));
  const header = encodeEntry({
    type: 'file',
    mode: file.type === 'directory' ? 0o755 : 0o644,
    uid: 0,
    gid: 0,
    mtime: { seconds: 1_500_000_000, nanos: 0 },
    devMajor: 0,
    devMinor: 0,
    ...rest,
    path: name(file.path),
    linkPath: name(file.linkPath ?? ''),
    size: body.length,
  });
  return Buffer.concat([header, body, padding(body.length)]);
}

export function tarOf(files: readonly TarFile[], options: { readonly raw?: boolean } = {}): Buffer {
  return Buffer.concat([...files.map((file) => tarFile(file, options)), endOfArchive()]);
}

/** The bytes as a stream, in pieces of `size`, so that no reader can rely on what a chunk holds. */
export async function* inPieces(bytes: Uint8Array, size = 1000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** A raw header block, for archives that no sound writer makes. */
export function rawHeader(fields: Readonly<Record<number, string | Uint8Array>>): Buffer {
  const block = Buffer.from(
    encodeEntry({
      path: 'f',
      type: 'file',
      mode: 0o644,
      uid: 0,
      gid: 0,
      size: 0,
      mtime: { seconds: 0, nanos: 0 },
      linkPath: '',
      devMajor: 0,
      devMinor: 0,
    }),
  );
  for (const [at, value] of Object.entries(fields)) {
    block.set(typeof value === 'string' ? Buffer.from(value, 'latin1') : value, Number(at));
  }
  let sum = 8 * 32;
  for (let index = 0; index < 512; index++) sum += index >= 148 && index < 156 ? 0 : (block[index] ?? 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
