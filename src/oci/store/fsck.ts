import { randomBytes } from 'node:crypto';
import { copyFile, readdir, rename, stat } from 'node:fs/promises';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { writeFileAtomic } from '../../kernel/system/index.ts';
import { parseManifestOrIndex } from '../image/parse.ts';
import { LARGEST_DOCUMENT } from '../names/index.ts';
import type { FsckFinding } from '../port.ts';
import type { Digest } from '../types.ts';
import { attempt } from './attempt.ts';
import { checkLayers, type FsckInput, type FsckOptions } from './fsck-layers.ts';
import { readBlobFile, sizeOf } from './ingest.ts';
import { EMPTY_INDEX, type Layout, makeFolders } from './layout.ts';
import { acquireLock, tryLock } from './lock.ts';
import { blobFiles, emptyTrash, moveAside, sweepDead, sweepUnfinished } from './prune.ts';
import { step } from './steps.ts';
import { filterTags, parseTag, tryIndexFile } from './tags.ts';

/**
 * Looks at every byte of every blob and of every unpacked layer, at the names, and at what was left half done.
 * Mending means taking away what is wrong, so that the next pull or run brings it again: a damaged blob, then the
 * manifests that are not whole any more, then the names that lead to nothing, then damaged unpacked layers. What a
 * run or a pull holds at this moment stays.
 */
export async function checkStore(layout: Layout, options: FsckOptions): Promise<readonly FsckFinding[]> {
  const input: FsckInput = { ...options, roots: () => rootsOf(layout) };
  if (input.repair) await makeFolders(layout);
  const findings = [
    ...(await checkIndexFile(layout, input)),
    ...(await checkBlobs(layout, input)),
    ...(await checkManifests(layout, input)),
    ...(await checkNames(layout, input)),
    ...(await checkUnfinished(layout, input)),
    ...(await checkLayers(layout, input)),
  ];
  if (input.repair) await emptyTrash(layout);
  return findings;
}

/** None where the names are damaged: that is a finding already. */
async function entriesOf(layout: Layout): Promise<readonly unknown[]> {
  const index = await tryIndexFile(layout);
  return (index?.manifests ?? []) as readonly unknown[];
}

async function rootsOf(layout: Layout): Promise<readonly Digest[]> {
  const tags = (await entriesOf(layout)).map(parseTag);
  return tags.flatMap((tag) => (tag === undefined || tag.sparse ? [] : [tag.descriptor.digest]));
}

async function checkIndexFile(
  layout: Layout,
  { repair, signal }: FsckInput,
): Promise<readonly FsckFinding[]> {
  using _lock = await acquireLock(layout.storeLock, { signal });
  if ((await tryIndexFile(layout)) !== undefined) return [];
  if (repair) {
    await setAside(layout.index);
    step('fsck.aside');
    await writeFileAtomic(layout.index, EMPTY_INDEX, {
      mode: 0o644,
      at: (moment) => step(`index.${moment}`),
    });
  }
  return [
    { kind: 'index', subject: 'index.json', message: 'it cannot be read; names are lost', repaired: repair },
  ];
}

/** Kept for whoever wants to look at it; a file stays in its place until its successor is whole. */
async function setAside(path: string): Promise<void> {
  const aside = `${path}.damaged-${randomBytes(4).toString('hex')}`;
  const info = await stat(path).catch(absent);
  if (info?.isFile()) return await copyFile(path, aside);
  // Also a link that leads nowhere.
  await rename(path, aside).catch(absent);
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ELOOP') throw error;
}

async function checkBlobs(layout: Layout, { repair, signal }: FsckInput): Promise<readonly FsckFinding[]> {
  const findings: FsckFinding[] = [];
  for await (const { digest, path } of blobFiles(layout)) {
    if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while the store was checked');
    const problem = await blobProblem(path, digest);
    if (problem === undefined) continue;
    if (repair) {
      using _lock = await acquireLock(layout.blobLock(digest), { signal });
      // Somebody may have brought it anew while we waited.
      if ((await blobProblem(path, digest)) !== undefined) await moveAside(layout, path);
      step('fsck.blob');
    }
    findings.push({ kind: 'blob-digest', subject: digest, message: problem, repaired: repair });
  }
  return findings;
}

async function blobProblem(path: string, digest: Digest): Promise<string | undefined> {
  try {
    for await (const _chunk of readBlobFile(path, digest));
    return undefined;
  } catch (error) {
    if (isSkycapError(error, 'OCI_BLOB_MISSING')) return undefined;
    if (isSkycapError(error, 'OCI_BLOB_CORRUPT')) return error.message.replace(/^.*?: /, '');
    throw error;
  }
}

/** A manifest whose parts are not all there is of no use: without it the next pull brings what is missing. */
async function checkManifests(layout: Layout, input: FsckInput): Promise<readonly FsckFinding[]> {
  using _lock = await acquireLock(layout.storeLock, { signal: input.signal });
  const { missing } = await input.reach(await input.roots());
  const leased = input.repair ? await input.leased() : new Set<Digest>();
  const findings: FsckFinding[] = [];
  for (const [digest, parent] of missing) {
    const repaired = input.repair && !leased.has(parent);
    if (repaired) {
      await moveAside(layout, layout.blob(parent));
      step('fsck.manifest');
    }
    const then = repaired ? 'which was dropped too' : 'pull the image again';
    findings.push({
      kind: 'blob-missing',
      subject: digest,
      message: `${parent} needs it; ${then}`,
      repaired,
    });
  }
  return findings;
}

async function checkNames(layout: Layout, input: FsckInput): Promise<readonly FsckFinding[]> {
  using _lock = await acquireLock(layout.storeLock, { signal: input.signal });
  const list = await entriesOf(layout);
  const bad = new Map<string, FsckFinding>();
  for (const item of list) {
    const problem = await nameProblem(layout, item, input);
    if (problem === undefined) continue;
    const subject = parseTag(item)?.reference ?? parseTag(item)?.descriptor.digest ?? 'index.json';
    bad.set(JSON.stringify(item), { kind: 'index', subject, message: problem, repaired: input.repair });
  }
  // The file is read again, so entries are compared by what they say.
  if (input.repair) await filterTags(layout, (item) => !bad.has(JSON.stringify(item)));
  return [...bad.values()];
}

async function nameProblem(
  layout: Layout,
  item: unknown,
  { has, read }: FsckInput,
): Promise<string | undefined> {
  const tag = parseTag(item);
  if (tag === undefined) return 'an entry that is no descriptor';
  const { digest, mediaType } = tag.descriptor;
  const size = await sizeOf(layout.blob(digest));
  if (size === undefined) return 'the name leads to a manifest that is not there';
  if (tag.sparse) return undefined;
  if (size > LARGEST_DOCUMENT) return 'the name leads to something that is too large for a manifest';
  const bytes = await read(digest);
  // Its bytes have changed: that is a finding already.
  if (bytes === undefined) return undefined;
  const parsed = attempt(() => parseManifestOrIndex(bytes, mediaType));
  if (parsed === undefined) return 'the name leads to something that is no manifest';
  if (parsed.kind === 'manifest' || parsed.manifests.length === 0) return undefined;
  for (const child of parsed.manifests) if (await has(child.digest)) return undefined;
  return 'the name leads to an index none of whose images is there';
}

/** Partial files and half unpacked layers that nobody is writing. */
async function checkUnfinished(
  layout: Layout,
  { repair, signal }: FsckInput,
): Promise<readonly FsckFinding[]> {
  const before = await unfinished(layout);
  if (repair) {
    using _lock = await acquireLock(layout.storeLock, { signal });
    await sweepDead(layout);
    await sweepUnfinished(layout, 0);
  }
  const after = new Set(repair ? await unfinished(layout) : before);
  return before.map((name) => ({
    kind: 'partial',
    subject: name,
    message: 'left by an interrupted command',
    repaired: !after.has(name),
  }));
}

async function unfinished(layout: Layout): Promise<readonly string[]> {
  const names: string[] = [];
  for (const name of await readdir(layout.ingest)) {
    const digest = layout.partialDigest(name);
    if (digest !== undefined && isFree(layout.blobLock(digest))) names.push(name);
  }
  for (const name of await readdir(layout.layers)) {
    if (name.startsWith('tmp-') && isFree(layout.layerLock(name.slice(4)))) names.push(name);
  }
  return names;
}

function isFree(lockPath: string): boolean {
  using lock = tryLock(lockPath);
  return lock !== undefined;
}
