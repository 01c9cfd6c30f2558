import { failpoint } from '../../kernel/index.ts';

/**
 * Every moment at which a write of the store can be cut off, by kill -9 or by a full disk. The list is closed: the
 * fault tests stop a process at each and fail if one is not reached.
 */
export const storeSteps = [
  // A new store.
  'store.folders',
  'store.index',
  'store.layout',
  // A blob that comes in.
  'blob.begin',
  'blob.write',
  'blob.sync',
  'blob.rename',
  'blob.renamed',
  // A blob of our own, whose digest is known when it is whole.
  'spool.write',
  'spool.written',
  // A lock of one process, made and not yet locked.
  'lock.made',
  // Leases and names.
  'lease.written',
  'lease.renamed',
  'index.written',
  'index.renamed',
  // An unpacked layer.
  'layer.begin',
  'layer.unpacked',
  'layer.record',
  'layer.replace',
  'layer.renamed',
  'layer.durable',
  // Garbage.
  'prune.leases',
  'prune.blob',
  'prune.layer',
  'prune.trash',
  // Mending.
  'fsck.aside',
  'fsck.blob',
  'fsck.manifest',
  'fsck.layer',
] as const;

export type StoreStep = (typeof storeSteps)[number];

/** Where a test may stop the process; costs one comparison. */
export function step(name: StoreStep): void {
  failpoint(name);
}
