import { isSkycapError } from '../../kernel/index.ts';
import { diskError } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import type { Digest } from '../types.ts';

/** What the system says of a folder or file that is not what it should be, or not ours. */
const UNUSABLE: Readonly<Record<string, string>> = {
  EACCES: 'it may not be read or written',
  EPERM: 'it may not be read or written',
  EROFS: 'its file system is read-only',
  ENOENT: 'a folder there cannot be made, or is gone',
  ENOTDIR: 'a file stands where a folder belongs',
  EEXIST: 'a file stands where a folder belongs',
  EISDIR: 'a folder stands where a file belongs',
  ENOTEMPTY: 'a folder stands where a file belongs',
  ELOOP: 'a link stands where a file belongs',
  EIO: 'the disk cannot be read',
  ENODEV: 'it is no ordinary folder',
  ENXIO: 'it is no ordinary folder',
  EINVAL: 'it is no ordinary folder',
  ENAMETOOLONG: 'its name is too long',
  EMFILE: 'too many files are open',
  ENFILE: 'too many files are open',
  ENOMEM: 'there is not enough memory',
  ESTALE: 'its file system is gone',
  EBUSY: 'something on the host is using it',
};

const AGAIN = 'run the same command again';
/** Where another folder would not help. */
const HINTS: Readonly<Record<string, string>> = {
  EIO: `look at what the kernel says of the disk (dmesg); if it was a passing fault, ${AGAIN}`,
  EMFILE: `allow more open files (ulimit -n), then ${AGAIN}`,
  ENFILE: `allow more open files (sysctl fs.file-max), then ${AGAIN}`,
  ENOMEM: `give it more memory, then ${AGAIN}`,
  ESTALE: `mount it again, then ${AGAIN}`,
  EBUSY: AGAIN,
};

export const NAME_ANOTHER =
  'name a folder of your own: `store.directory` of the configuration, or SKYCAP_STORE_DIRECTORY';

/**
 * A fault of the system while the store was used, as an error that names the store. Coded errors and faults of
 * another kind stay as they are.
 */
export function storeError(error: unknown, directory: string): unknown {
  const coded = diskError(error, directory);
  if (isSkycapError(coded)) return coded;
  const { code, path } = coded as { readonly code?: unknown; readonly path?: unknown };
  const what = typeof code === 'string' ? UNUSABLE[code] : undefined;
  if (what === undefined) return coded;
  return ociError('OCI_STORE_INVALID', `the store ${directory} cannot be used: ${what}`, {
    hint: HINTS[code as string] ?? NAME_ANOTHER,
    place: { file: typeof path === 'string' ? path : directory },
    details: { directory, system: code },
    cause: error,
  });
}

/** The fault is on this disk, not with the registry or the network. */
export function damaged(path: string, digest: Digest, what = 'its bytes have changed'): Error {
  return ociError('OCI_BLOB_CORRUPT', `the store holds a damaged copy of ${digest}: ${what}`, {
    hint: 'run `skycap image fsck --repair` and then the same command again, which brings it anew',
    place: { file: path },
    details: { digest },
  });
}

export function missing(digest: Digest): Error {
  return ociError('OCI_BLOB_MISSING', `${digest} is not in the store`, {
    hint: 'pull the image again',
    details: { digest },
  });
}

/** A named manifest or config, without which nobody can say what is in use. */
export function unreadable(digest: Digest, size: number | undefined): Error {
  const [code, what] =
    size === undefined
      ? (['OCI_BLOB_MISSING', 'is not in the store'] as const)
      : (['OCI_BLOB_CORRUPT', `has ${size} bytes, too many for a manifest`] as const);
  return ociError(code, `a name leads to ${digest}, which ${what}: what it needs is not known`, {
    hint: 'run `skycap image fsck --repair`, pull the image again, and then run the same command again',
    details: { digest },
  });
}

const UNREADABLE: ReadonlySet<unknown> = new Set(['EIO', 'ELOOP', 'ENXIO', 'EACCES', 'EPERM']);

/** A fault of the system while a blob's file was opened or read: damage, or else the fault as it is. */
export function unreadableFile(error: unknown, path: string, digest: Digest): unknown {
  const { code } = error as { readonly code: string };
  return UNREADABLE.has(code) ? damaged(path, digest, `it cannot be read (${code})`) : error;
}
