import { createReadStream } from 'node:fs';
import { mkdir, open, rm } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { decompress, sniffCompression } from '../layer/index.ts';
import { digestOf, digestParts, familiarReference, formatReference } from '../names/index.ts';
import type { Store, TransferOptions } from '../port.ts';
import { openArchive, openFile } from './archive-files.ts';
import { type FileSet, openFolder } from './files.ts';
import { writing } from './layout-target.ts';
import type { CopyRegistry } from './registry-ends.ts';
import type { Transport } from './transport.ts';
import type { ImageSource, ImageTarget } from './types.ts';

/** What the two ends of a copy are made with; each is asked for only where a transport needs it. */
export interface Ends extends TransferOptions {
  registry(): Promise<CopyRegistry>;
  store(): Promise<Store>;
  /** Path of the Docker daemon's socket. */
  dockerSocket(): Promise<string>;
  /** A private folder for what has to lie on disk meanwhile. */
  scratch(): Promise<string>;
  /** What relative paths are relative to. */
  readonly directory: string;
}

/**
 * What an image is read from. Files are opened and their names looked up; a registry and the store are asked only when
 * something is read.
 *
 * @throws OCI_LAYOUT_INVALID, OCI_ARCHIVE_INVALID, OCI_IMAGE_MISSING, OCI_DAEMON_*
 */
export async function openSource(transport: Transport, ends: Ends): Promise<ImageSource> {
  const name = formatTransport(transport);
  switch (transport.kind) {
    case 'docker': {
      const { registrySource } = await import('./registry-ends.ts');
      return registrySource(await ends.registry(), transport.reference);
    }
    case 'store': {
      const { storeSource } = await import('./store-ends.ts');
      return storeSource(await ends.store(), transport.reference);
    }
    case 'oci':
    case 'oci-archive': {
      const { layoutSource } = await import('./layout-source.ts');
      const path = absolute(transport.path, ends);
      const files = transport.kind === 'oci' ? await openFolder(path) : await archiveFiles(path, ends);
      return await closing(files, layoutSource(files, { ...transport, name }));
    }
    case 'docker-archive': {
      const { dockerArchiveSource } = await import('./docker-source.ts');
      const files = await archiveFiles(absolute(transport.path, ends), ends);
      return await closing(files, dockerArchiveSource(files, { ...transport, name }));
    }
    case 'docker-daemon': {
      const { daemonSource } = await import('./daemon.ts');
      const image = 'id' in transport ? transport.id : familiarReference(transport.reference);
      return await daemonSource(image, { ...ends, ...(await daemon(ends)), name });
    }
  }
}

export interface TargetOptions {
  /** Replace an archive that is there already. */
  readonly replace: boolean;
}

/**
 * What an image is written to. Until it is disposed of, other commands that write to the same layout or archive wait.
 *
 * @throws OCI_TRANSPORT_INVALID for what cannot be written to, OCI_LAYOUT_INVALID, OCI_ARCHIVE_WRITE, OCI_DAEMON_*
 */
export async function openTarget(
  transport: Transport,
  ends: Ends,
  options: TargetOptions,
): Promise<ImageTarget> {
  const name = formatTransport(transport);
  const { signal } = ends;
  if ('at' in transport) {
    throw ociError('OCI_TRANSPORT_INVALID', `${name}: a position is no name to write to`, {
      hint: 'name the image, or leave the position out',
    });
  }
  if ((transport.kind === 'store' || transport.kind === 'docker-daemon') && !isWritable(transport)) {
    throw ociError('OCI_TRANSPORT_INVALID', `${name}: a digest is no name to write to`, {
      hint: 'give the image a tag there',
    });
  }
  switch (transport.kind) {
    case 'docker': {
      const { registryTarget } = await import('./registry-ends.ts');
      return registryTarget(await ends.registry(), transport.reference);
    }
    case 'store': {
      const { storeTarget } = await import('./store-ends.ts');
      return await storeTarget(await ends.store(), transport.reference);
    }
    case 'oci': {
      const { layoutTarget } = await import('./layout-target.ts');
      return await layoutTarget({ ...transport, path: absolute(transport.path, ends), name, signal });
    }
    case 'oci-archive': {
      const { ociArchiveTarget } = await import('./archive-targets.ts');
      const path = absolute(transport.path, ends);
      return await ociArchiveTarget({ ...transport, ...options, path, name, signal });
    }
    case 'docker-archive': {
      const { dockerArchiveTarget } = await import('./archive-targets.ts');
      const path = absolute(transport.path, ends);
      return await dockerArchiveTarget({ ...transport, ...options, path, name, signal });
    }
    case 'docker-daemon': {
      const { daemonTarget } = await import('./daemon.ts');
      if ('id' in transport) throw new Error('an id is no target');
      return await daemonTarget(transport.reference, { ...(await daemon(ends)), name, signal });
    }
  }
}

function isWritable(transport: Transport): boolean {
  return 'reference' in transport && transport.reference?.digest === undefined;
}

async function daemon(ends: Ends): Promise<{ readonly socketPath: string; readonly scratch: string }> {
  return { socketPath: await ends.dockerSocket(), scratch: await ends.scratch() };
}

function absolute(path: string, ends: Ends): string {
  return isAbsolute(path) ? path : resolve(ends.directory, path);
}

async function closing<T>(files: FileSet, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    await files[Symbol.asyncDispose]();
    throw error;
  }
}

/** An archive that is compressed as a whole is unpacked to the scratch folder first: it can be read in order only. */
async function archiveFiles(path: string, ends: Ends): Promise<FileSet> {
  const head = Buffer.alloc(6);
  {
    await using handle = await openFile(path);
    await handle.read(head, 0, head.length, 0);
  }
  if (sniffCompression(head) === 'none') return await openArchive(path);
  const scratch = await ends.scratch();
  const key = digestParts(digestOf(path)).hex.slice(0, 16);
  const plain = join(scratch, `archive-${key}-${process.pid}.tar`);
  await writing(plain, mkdir(scratch, { recursive: true, mode: 0o700 }));
  try {
    const handle = await writing(plain, open(plain, 'w', 0o600));
    try {
      for await (const chunk of decompress(createReadStream(path, { highWaterMark: 1 << 20 }))) {
        if (ends.signal.aborted) throw kernelError('CANCELLED', 'cancelled while an archive was unpacked');
        await writing(plain, handle.writeFile(chunk));
      }
    } finally {
      await handle.close();
    }
    const files = await openArchive(plain);
    return {
      ...files,
      path,
      async [Symbol.asyncDispose]() {
        await files[Symbol.asyncDispose]();
        await rm(plain, { force: true });
      },
    };
  } catch (error) {
    await rm(plain, { force: true });
    throw error;
  }
}

/** The opposite of `parseTransport`. */
export function formatTransport(transport: Transport): string {
  switch (transport.kind) {
    case 'docker':
      return `docker://${formatReference(transport.reference)}`;
    case 'store':
      return `store:${formatReference(transport.reference)}`;
    case 'docker-daemon':
      return `docker-daemon:${'id' in transport ? transport.id : formatReference(transport.reference)}`;
    default: {
      const name =
        'ref' in transport && transport.ref !== undefined
          ? `:${transport.ref}`
          : 'reference' in transport && transport.reference !== undefined
            ? `:${formatReference(transport.reference)}`
            : '';
      return `${transport.kind}:${transport.path}${transport.at === undefined ? name : `:@${transport.at}`}`;
    }
  }
}
