import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { ignoreEvents } from '../../kernel/index.ts';
import { buildImage, type LayerSource, type NewConfig, type VirtualFile } from '../../oci/image/index.ts';
import type { PinnedImage, Platform, Store } from '../../oci/index.ts';
import { hostPlatform } from '../../oci/names/index.ts';

const run = promisify(execFile);
const BUSYBOX = '/bin/busybox';

export type TestFile = Omit<VirtualFile, 'path'> | string;

export interface MakeImageOptions {
  /** Default `localhost/test/image:latest`. */
  readonly reference?: string;
  /** Default: this host's. */
  readonly platform?: Platform;
  readonly config?: NewConfig;
  /** The first layer gets a static busybox with a link for each applet, and /etc/passwd, /etc/group and /tmp. */
  readonly busybox?: boolean;
  /** One static binary of the host, put at `/app` of an otherwise empty image; the entrypoint unless one is given. */
  readonly binary?: string;
  /** Path to content; a layer of its own above busybox or the binary. */
  readonly files?: Readonly<Record<string, TestFile>>;
  /** Further layers, in order. */
  readonly layers?: readonly LayerSource[];
  /** Default `none`: tests want it fast. */
  readonly compression?: 'none' | 'gzip' | 'zstd';
}

let busyboxFiles: Promise<readonly VirtualFile[]> | undefined;

async function readBusybox(): Promise<readonly VirtualFile[]> {
  const [content, { stdout }] = await Promise.all([readFile(BUSYBOX), run(BUSYBOX, ['--list'])]);
  const applets = stdout.split('\n').filter((name) => name !== '' && name !== 'busybox');
  return [
    { path: 'bin/busybox', content, mode: 0o755 },
    ...applets.map(
      (name): VirtualFile => ({ path: `bin/${name}`, type: 'link', mode: 0o755, linkPath: 'bin/busybox' }),
    ),
    { path: 'usr', type: 'directory' },
    { path: 'usr/bin', type: 'symlink', linkPath: '../bin' },
    { path: 'tmp', type: 'directory', mode: 0o1777 },
    { path: 'root', type: 'directory', mode: 0o700 },
    {
      path: 'etc/passwd',
      content: 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n',
    },
    { path: 'etc/group', content: 'root:x:0:\nuser:x:1000:\nstaff:x:50:user\n' },
    { path: 'home/user', type: 'directory', mode: 0o755, uid: 1000, gid: 1000 },
  ];
}

/** Files of a small userland made of the host's static busybox. */
export function busyboxRootfs(): Promise<readonly VirtualFile[]> {
  busyboxFiles ??= readBusybox();
  return busyboxFiles;
}

function toFiles(files: Readonly<Record<string, TestFile>>): readonly VirtualFile[] {
  return Object.entries(files).map(([path, file]) =>
    typeof file === 'string' ? { path, content: file } : { ...file, path },
  );
}

/**
 * Puts a small image into a store and names it.
 *
 * @example
 * const image = await makeImage(store, { busybox: true, config: { entrypoint: ['/bin/sh', '-c', 'echo hi'] } });
 */
export async function makeImage(store: Store, options: MakeImageOptions): Promise<PinnedImage> {
  const layers: LayerSource[] = [];
  if (options.busybox === true) layers.push({ files: await busyboxRootfs() });
  if (options.binary !== undefined) {
    layers.push({ files: [{ path: 'app', content: await readFile(options.binary), mode: 0o755 }] });
  }
  if (options.files !== undefined) layers.push({ files: toFiles(options.files) });
  layers.push(...(options.layers ?? []));
  const entrypoint =
    options.binary !== undefined && options.config?.cmd === undefined ? { entrypoint: ['/app'] } : {};
  return await buildImage(
    store,
    {
      layers,
      reference: options.reference ?? 'localhost/test/image:latest',
      platform: options.platform ?? hostPlatform({ platform: process.platform, arch: process.arch }),
      compression: options.compression ?? 'none',
      config: { ...entrypoint, ...options.config },
    },
    { signal: new AbortController().signal, emit: ignoreEvents },
  );
}

export { signImage } from './sign.ts';
export { type StoreRegistry, type StoreRegistryOptions, storeRegistry } from './store-registry.ts';
export { inPieces, rawHeader, type TarFile, tarFile, tarOf } from './tar.ts';
export { recordingTransfer } from './transfer.ts';
export { codeOf, fromTar, imageOf, type Made, made, merged, treeOf } from './values.ts';
