import {
  type CheckedEntry,
  DEFAULT_LIMITS,
  LayerChecker,
  type LayerLimits,
  type LowerFile,
  type TarEntry,
} from '../../oci/layer/index.ts';
import type { IdMap } from '../../oci/port.ts';

type Change = Partial<TarEntry>;

export const file = (path: string, change: Change = {}): TarEntry => ({
  path,
  type: 'file',
  mode: 0o640,
  uid: 1,
  gid: 2,
  size: 3,
  mtime: { seconds: 4, nanos: 5 },
  linkPath: '',
  devMajor: 0,
  devMinor: 0,
  ...change,
});
export const directory = (path: string, change: Change = {}): TarEntry =>
  file(path, { type: 'directory', size: 0, ...change });
export const symlink = (path: string, linkPath: string): TarEntry =>
  file(path, { type: 'symlink', linkPath, size: 0 });
export const hardLink = (path: string, linkPath: string, change: Change = {}): TarEntry =>
  file(path, { type: 'link', linkPath, size: 0, ...change });

/** A directory that no entry names, as a checker hands it on. */
export const implied = (path: string, change: Change = {}): TarEntry =>
  directory(path, { mode: 0o755, uid: 0, gid: 0, mtime: { seconds: 0, nanos: 0 }, ...change });
/** A hard link as a checker hands it on: a name and nothing more. */
export const linkAs = (path: string, linkPath: string): TarEntry =>
  implied(path, { type: 'link', mode: 0o644, linkPath });

export interface CheckedOptions {
  readonly map?: IdMap;
  readonly limits?: Partial<LayerLimits>;
  readonly lower?: (path: string) => Promise<LowerFile | undefined>;
}

interface Checked {
  readonly out: readonly CheckedEntry[];
  readonly checker: LayerChecker;
}

/** A whole layer of these entries through a checker. */
export async function checkedBy(
  entries: readonly TarEntry[],
  { map, limits, lower }: CheckedOptions = {},
): Promise<Checked> {
  const checker = new LayerChecker({ map, lower, limits: { ...DEFAULT_LIMITS, ...limits } });
  const out: CheckedEntry[] = [];
  for (const entry of entries) out.push(...(await checker.take(entry)));
  return { out: [...out, ...checker.finish()], checker };
}
