import { chmodSync, mkdirSync, readFileSync, realpathSync, statfsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { ensurePrivateDirectorySync } from '../../kernel/system/index.ts';
import { stateError } from '../errors.ts';
import { asFileError, fileErrorCode } from './files.ts';

/** Where everything lies; the database is never opened by anything but SQLite. */
export interface StatePaths {
  readonly directory: string;
  readonly database: string;
  readonly masterKey: string;
  readonly locks: string;
  readonly logs: string;
  readonly bundleState: string;
}

export interface FileSystemProbe {
  /** Magic number of statfs(2). */
  magicOf(path: string): number;
  /** Content of /proc/self/mountinfo, or an empty text where there is none. */
  mountInfo(): string;
}

const realProbe: FileSystemProbe = {
  magicOf: (path) => statfsSync(path).type,
  mountInfo: () => {
    try {
      return readFileSync('/proc/self/mountinfo', 'utf8');
    } catch {
      return '';
    }
  },
};

// statfs(2) and linux/magic.h. File systems on which another machine may hold the file open: POSIX locks and the
// shared memory of SQLite's WAL do not reach across.
const NETWORK_MAGIC: ReadonlyMap<number, string> = new Map([
  [0x6969, 'nfs'],
  [0x517b, 'smb'],
  [0xff534d42, 'cifs'],
  [0xfe534d42, 'smb2'],
  [0x01021997, '9p'],
  [0x5346414f, 'afs'],
  [0x6b414653, 'afs'],
  [0x73757245, 'coda'],
  [0x564c, 'ncp'],
  [0x00c36400, 'ceph'],
  [0x0bd00bd0, 'lustre'],
  [0x47504653, 'gpfs'],
  [0x19830326, 'beegfs'],
  [0x01161970, 'gfs2'],
  [0x7461636f, 'ocfs2'],
  [0xaad7aaea, 'panfs'],
]);
const FUSE_MAGIC = 0x65735546;
// FUSE serves local and remote file systems under one number; the type in mountinfo tells them apart.
const NETWORK_FUSE =
  /^fuse\.(sshfs|s3fs|gcsfuse|goofys|rclone|glusterfs|ceph|davfs|curlftpfs|blobfuse2?|juicefs|mount-s3|mfs|moosefs|seaweedfs|cvmfs2)/;

/** The name of the network file system that holds the path, or undefined for a local one. */
export function networkFileSystem(path: string, probe: FileSystemProbe = realProbe): string | undefined {
  const magic = probe.magicOf(path) >>> 0;
  const known = NETWORK_MAGIC.get(magic);
  if (known !== undefined) return known;
  if (magic !== FUSE_MAGIC) return undefined;
  const type = mountTypeOf(path, probe.mountInfo());
  return type !== undefined && NETWORK_FUSE.test(type) ? type : undefined;
}

/** proc(5): fields 5 (mount point, octal escapes) and, after the separator, the type. The longest prefix holds. */
function mountTypeOf(path: string, mountInfo: string): string | undefined {
  let best = '';
  let type: string | undefined;
  for (const line of mountInfo.split('\n')) {
    const [left, right] = line.split(' - ');
    const point = left
      ?.split(' ')[4]
      ?.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
    if (point === undefined || right === undefined) continue;
    const inside = path === point || path.startsWith(point.endsWith('/') ? point : `${point}/`);
    if (!inside || point.length < best.length) continue;
    best = point;
    type = right.split(' ')[0];
  }
  return type;
}

/**
 * Makes the state directory private and ready.
 *
 * @throws STATE_PERMISSIONS, STATE_NETWORK_FS, DISK_FULL
 */
export function prepareDirectory(directory: string, probe?: FileSystemProbe): StatePaths {
  const wanted = resolve(directory);
  try {
    ensurePrivateDirectorySync(wanted);
  } catch (error) {
    throw unusable(wanted, error);
  }
  const root = realpathSync(wanted);
  const network = networkFileSystem(root, probe);
  if (network !== undefined) {
    throw stateError(
      'STATE_NETWORK_FS',
      `the state directory ${root} is on a network file system (${network})`,
      {
        hint: 'set `state.directory` in the configuration to a folder on a local disk',
        details: { directory: root, fileSystem: network },
      },
    );
  }
  ownAndClose(root);
  const paths: StatePaths = {
    directory: root,
    database: join(root, 'state.db'),
    masterKey: join(root, 'master.key'),
    locks: join(root, 'locks'),
    logs: join(root, 'logs'),
    bundleState: join(root, 'bundle-state'),
  };
  for (const folder of [paths.locks, paths.logs, paths.bundleState]) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw unusable(folder, error);
    }
    ownAndClose(folder);
  }
  return paths;
}

function ownAndClose(folder: string): void {
  const stat = statSync(folder);
  const me = process.geteuid?.() ?? 0;
  if (!stat.isDirectory() || (me !== 0 && stat.uid !== me)) {
    throw stateError(
      'STATE_PERMISSIONS',
      `${folder} belongs to user ${stat.uid}, and this process runs as ${me}`,
      {
        hint: 'run as that user, or set `state.directory` to a folder of your own',
        details: { directory: folder, owner: stat.uid, user: me },
      },
    );
  }
  if ((stat.mode & 0o077) !== 0) chmodSync(folder, 0o700);
}

/** ENOENT although the parents were made: /proc and the like. */
const UNUSABLE = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOTDIR',
  'EEXIST',
  'ENOENT',
  'ELOOP',
  'ENAMETOOLONG',
]);

function unusable(path: string, error: unknown): unknown {
  const code = fileErrorCode(error);
  if (code === undefined || !UNUSABLE.has(code)) return asFileError(error, path);
  return stateError('STATE_PERMISSIONS', `the state directory ${path} cannot be made (${code})`, {
    hint: 'set `state.directory` in the configuration to a folder that you may write',
    details: { directory: path },
    cause: error,
  });
}
