import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { writeFileAtomic } from '../../kernel/system/index.ts';
import { isObject } from '../image/json.ts';
import { isDigest } from '../names/index.ts';
import type { FsckFinding, TransferOptions } from '../port.ts';
import type { Digest } from '../types.ts';
import type { Reached } from './graph.ts';
import { readBlobFile } from './ingest.ts';
import { ROOT, readRecordAt } from './layers.ts';
import type { Layout } from './layout.ts';
import { acquireLock } from './lock.ts';
import { blobFiles, sweepUnfinished } from './prune.ts';
import { filterTags, readIndexFile } from './tags.ts';
import { removeStubbornly } from './unpacking.ts';

export interface FsckInput extends TransferOptions {
  readonly repair: boolean;
  readonly reach: () => Promise<Reached>;
  readonly has: (digest: Digest) => Promise<boolean>;
}

/**
 * Looks at every byte of every blob, at the names, at what was left half done and at the unpacked layers' records.
 * Mending means dropping what is wrong: the next pull brings it again.
 */
export async function checkStore(layout: Layout, input: FsckInput): Promise<readonly FsckFinding[]> {
  return [
    ...(await checkIndex(layout, input)),
    ...(await checkBlobs(layout, input)),
    ...(await checkChildren(input)),
    ...(await checkUnfinished(layout, input)),
    ...(await checkLayers(layout, input)),
  ];
}

async function checkBlobs(layout: Layout, { repair, signal }: FsckInput): Promise<readonly FsckFinding[]> {
  const findings: FsckFinding[] = [];
  for await (const { digest, path } of blobFiles(layout)) {
    if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while the store was checked');
    const problem = await blobProblem(path, digest);
    if (problem === undefined) continue;
    if (repair) {
      using _lock = await acquireLock(layout.blobLock(digest), { signal });
      await rm(path, { force: true });
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
    if (isSkycapError(error, 'OCI_BLOB_CORRUPT')) return 'its bytes have another digest';
    if ((error as { code?: string }).code === 'EIO') return 'the disk cannot read it';
    throw error;
  }
}

async function checkIndex(
  layout: Layout,
  { repair, has, signal }: FsckInput,
): Promise<readonly FsckFinding[]> {
  using _lock = await acquireLock(layout.storeLock, { signal });
  let list: readonly unknown[];
  try {
    list = (await readIndexFile(layout)).manifests as readonly unknown[];
  } catch (error) {
    if (!isSkycapError(error)) throw error;
    if (repair) {
      await rename(layout.index, `${layout.index}.damaged`);
      await writeFileAtomic(layout.index, '{"schemaVersion":2,"manifests":[]}', { mode: 0o644 });
    }
    return [
      {
        kind: 'index',
        subject: 'index.json',
        message: 'it cannot be read; names are lost',
        repaired: repair,
      },
    ];
  }
  const bad = new Set<unknown>();
  for (const item of list) {
    const digest = isObject(item) ? item.digest : undefined;
    if (!isDigest(digest) || !(await has(digest))) bad.add(item);
  }
  if (repair && bad.size > 0) await filterTags(layout, (item) => !bad.has(item) && isKept(item, bad));
  return [...bad].map((item) => ({
    kind: 'index',
    subject: isObject(item) ? String(item.digest) : 'index.json',
    message: 'a name leads to a manifest that is not there',
    repaired: repair,
  }));
}

/** `filterTags` reads the file again, so entries are compared by what they say. */
function isKept(item: unknown, bad: ReadonlySet<unknown>): boolean {
  const text = JSON.stringify(item);
  return ![...bad].some((other) => JSON.stringify(other) === text);
}

async function checkChildren(input: FsckInput): Promise<readonly FsckFinding[]> {
  const { missing } = await input.reach();
  return [...missing].map(([digest, parent]) => ({
    kind: 'blob-missing',
    subject: digest,
    message: `${parent} needs it; pull the image again`,
    repaired: false,
  }));
}

async function checkUnfinished(layout: Layout, { repair }: FsckInput): Promise<readonly FsckFinding[]> {
  const names = async (): Promise<readonly string[]> => [
    ...(await readdir(layout.ingest)),
    ...(await readdir(layout.layers)).filter((name) => name.startsWith('tmp-')),
  ];
  const before = await names();
  if (repair) await sweepUnfinished(layout, 0);
  const after = new Set(repair ? await names() : before);
  return before.map((name) => ({
    kind: 'partial',
    subject: name,
    message: 'left by an interrupted command, or being written now',
    repaired: !after.has(name),
  }));
}

async function checkLayers(layout: Layout, { repair, signal }: FsckInput): Promise<readonly FsckFinding[]> {
  const findings: FsckFinding[] = [];
  for (const name of await readdir(layout.layers)) {
    if (name.startsWith('tmp-')) continue;
    const path = join(layout.layers, name);
    const record = await readRecordAt(path);
    const whole =
      record !== undefined && (await stat(join(path, ROOT)).catch(() => undefined))?.isDirectory() === true;
    if (whole) continue;
    if (repair) {
      using _lock = await acquireLock(layout.layerLock(name), { signal });
      await removeStubbornly(path);
    }
    findings.push({
      kind: 'layer',
      subject: name,
      message: 'an unpacked layer without its record',
      repaired: repair,
    });
  }
  return findings;
}
