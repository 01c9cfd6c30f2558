import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { lstat, open, readlink } from 'node:fs/promises';
import { helperEnvironment } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { type ByteString, type EntryType, showPath, type TarEntry } from './entry.ts';
import { pathIn, shellWord } from './write-attributes.ts';

interface Kind {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
  isCharacterDevice(): boolean;
  isBlockDevice(): boolean;
}

/**
 * One file of an unpacked layer as an entry with its body, where GNU tar is not there to read it. Attributes are asked
 * of `getfattr`, which Node has no call for.
 *
 * @throws OCI_LAYER_WRITE where getfattr is missing: what it would say must not be lost
 */
export async function* readFileByNode(
  root: string,
  path: ByteString,
): AsyncGenerator<{ readonly entry: TarEntry; readonly body: AsyncIterable<Buffer> }> {
  const onDisk = pathIn(root, path);
  const stat = await lstat(onDisk, { bigint: true });
  const type = typeOf(stat);
  const xattrs = await readAttributes(onDisk, path);
  const nanos = ((stat.mtimeNs % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const entry: TarEntry = {
    path,
    type,
    mode: Number(stat.mode & 0o7777n),
    uid: Number(stat.uid),
    gid: Number(stat.gid),
    size: type === 'file' ? Number(stat.size) : 0,
    mtime: { seconds: Number((stat.mtimeNs - nanos) / 1_000_000_000n), nanos: Number(nanos) },
    linkPath: type === 'symlink' ? ((await readlink(onDisk, { encoding: 'latin1' })) as string) : '',
    // linux/kdev_t.h: twelve bits of the major number, twenty of the minor, and the rest of both above.
    devMajor: Number(((stat.rdev >> 8n) & 0xfffn) | ((stat.rdev >> 32n) & 0xfffff000n)),
    devMinor: Number((stat.rdev & 0xffn) | ((stat.rdev >> 12n) & 0xffffff00n)),
    ...(xattrs.size === 0 ? {} : { xattrs }),
  };
  yield { entry, body: bodyOf(onDisk, type) };
}

/** Opened when it is asked for, and never through a link. */
async function* bodyOf(onDisk: Buffer, type: EntryType): AsyncGenerator<Buffer> {
  if (type !== 'file') return;
  await using handle = await open(onDisk, constants.O_RDONLY | constants.O_NOFOLLOW);
  yield* handle.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>;
}

function typeOf(stat: Kind): EntryType {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'directory';
  if (stat.isSymbolicLink()) return 'symlink';
  if (stat.isCharacterDevice()) return 'char';
  return stat.isBlockDevice() ? 'block' : 'fifo';
}

async function readAttributes(onDisk: Buffer, path: ByteString): Promise<ReadonlyMap<string, Buffer>> {
  const found = new Map<string, Buffer>();
  for (const line of (await getfattr(onDisk, path)).split('\n')) {
    const equals = line.indexOf('=');
    if (line.startsWith('#') || line === '') continue;
    const name = equals === -1 ? line : line.slice(0, equals);
    found.set(name, Buffer.from(equals === -1 ? '' : line.slice(equals + '=0x'.length), 'hex'));
  }
  return found;
}

async function getfattr(onDisk: Buffer, path: ByteString): Promise<string> {
  const child = spawn('sh', [], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...helperEnvironment(), LC_ALL: 'C' },
  });
  let text = '';
  child.stdout.setEncoding('latin1').on('data', (part: string) => {
    text += part;
  });
  child.stdin.on('error', () => {});
  child.stdin.end(
    Buffer.concat([Buffer.from('exec getfattr -h -d -m - -e hex --absolute-names --'), shellWord(onDisk)]),
  );
  const code = await new Promise<number>((resolve) => {
    child.on('error', () => resolve(127));
    child.on('close', (status) => resolve(status ?? -1));
  });
  if (code === 0) return text;
  throw ociError('OCI_LAYER_WRITE', `the attributes of ${showPath(path)} cannot be read`, {
    hint: 'install GNU tar, or getfattr',
  });
}
