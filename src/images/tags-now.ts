import type { Bundle } from '../bundle/index.ts';
import { own } from '../kernel/index.ts';
import type { ImageAccess } from './access.ts';
import type { Lock } from './lock.ts';
import type { LockChange } from './make-lock.ts';

export interface TagsNow {
  /** Pins whose tags name something else by now. */
  readonly moved: readonly LockChange[];
  /** Tags that no registry told of, with the reason. */
  readonly unknown: readonly { readonly name: string; readonly reference: string; readonly reason: string }[];
}

/** What the tags behind pins name now: for warnings of `lock` and of `lint --tags`, never of a run. */
export async function tagsNow(
  bundle: Pick<Bundle, 'invocationImages'>,
  lock: Lock,
  access: Pick<ImageAccess, 'digestOf'>,
): Promise<TagsNow> {
  const moved: LockChange[] = [];
  const unknown: { name: string; reference: string; reason: string }[] = [];
  const asked = bundle.invocationImages.map(async ({ name, source }) => {
    const entry = own(lock.invocationImages, name);
    if (source.kind !== 'registry' || entry === undefined || !('reference' in entry)) return;
    if (source.image.includes('@')) return;
    const { reference, digest: from } = entry;
    try {
      const to = await access.digestOf(source.image);
      if (to !== from) moved.push({ kind: 'moved', name, reference, from, to });
    } catch (error) {
      unknown.push({ name, reference, reason: error instanceof Error ? error.message : String(error) });
    }
  });
  await Promise.all(asked);
  const byName = (a: { readonly name: string }, b: { readonly name: string }): number =>
    a.name < b.name ? -1 : 1;
  return { moved: moved.sort(byName), unknown: unknown.sort(byName) };
}
