import { createHash } from 'node:crypto';
import { type Digest, loadImages, type PinnedImage, type Store } from '../../src/oci/index.ts';
import type { Shell } from './shell.ts';

/**
 * A digest over everything that a tree says: names, kinds, permissions, owners, sizes, link targets, times in seconds,
 * which names are one file, contents, extended attributes. Walked from within, because paths may be as long as they can.
 */
export async function treeDigest(shell: Shell, folder: string): Promise<Digest> {
  const listed = await shell.sh(
    `cd ${folder}; LC_ALL=C find . -mindepth 1 -printf '%i\\t%y\\t%m\\t%U\\t%G\\t%s\\t%T@\\t%l\\t%P\\0' | base64 -w0`,
  );
  const contents = await shell.sh(
    `cd ${folder}; LC_ALL=C find . -type f -print0 | sort -z | xargs -0r -n1 sha256sum -z | base64 -w0`,
  );
  const attributes = await shell.sh(
    `cd ${folder}; LC_ALL=C find . -mindepth 1 ! -type l -print0 | sort -z | xargs -0r -n1 getfattr -d -m - -e hex -- 2>/dev/null | grep -v '^$' | base64 -w0 || true`,
  );
  const decode = (text: string): string => Buffer.from(text, 'base64').toString('latin1');
  const hash = createHash('sha256');
  for (const line of sortedEntries(decode(listed))) hash.update(`${line}\n`, 'latin1');
  hash.update(decode(contents), 'latin1').update(decode(attributes), 'latin1');
  return `sha256:${hash.digest('hex')}` as Digest;
}

/** Inodes differ everywhere: a file is named by the first of its names. */
function sortedEntries(listed: string): readonly string[] {
  const entries = listed
    .split('\0')
    .filter((text) => text !== '')
    .map((text) => text.split('\t'))
    .toSorted((left, right) => ((left[8] ?? '') < (right[8] ?? '') ? -1 : 1));
  const first = new Map<string, string>();
  return entries.map(([inode = '', kind = '', mode, uid, gid, size, time = '', link, path = '']) => {
    if (!first.has(inode)) first.set(inode, path);
    const length = kind === 'd' ? '' : size;
    return [kind, mode, uid, gid, length, time.split('.')[0], link, path, first.get(inode)].join('\t');
  });
}

/** The image as our own layers make it: one folder, or an overlay of several. */
export async function ownTree(shell: Shell, store: Store, image: PinnedImage): Promise<Digest> {
  const transfer = { signal: new AbortController().signal, emit: () => {} };
  const lowers = await store.lowers(image, undefined, transfer);
  const [only] = lowers;
  if (only === undefined) throw new Error('an image without layers has no tree');
  if (lowers.length === 1) return await treeDigest(shell, only.path);
  const mount = await shell.sh('mktemp -d merged-XXXX');
  const stack = lowers.map(({ path }) => path).toReversed();
  await shell.sh(`mount -t overlay overlay -o lowerdir=${stack.join(':')} ${mount}`);
  try {
    return await treeDigest(shell, mount);
  } finally {
    await shell.sh(`umount ${mount}; rmdir ${mount}`);
  }
}

export async function pinnedOf(store: Store, reference: string, fixture: string): Promise<PinnedImage> {
  const { pinnedFromStore } = await loadImages();
  const image = await pinnedFromStore(store, reference, { os: 'linux', architecture: 'amd64' });
  if (image === undefined) throw new Error(`${fixture} is not in the store`);
  return image;
}
