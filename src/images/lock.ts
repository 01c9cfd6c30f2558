import { digestOf, isDigest } from '../oci/names/index.ts';
import { imagesError } from './errors.ts';
import { interfaceProblem } from './interface.ts';

/**
 * `porter.lock`: JSON, sorted, one image an entry, so that a change reads well in a review. It proposes and proves
 * nothing: `pinImages` compares every field that a run uses with verified bytes (docs/security.md).
 */
export interface Lock {
  readonly lockVersion: 1;
  readonly invocationImages: Readonly<Record<string, LockedImage | LockedBuild | LockedBake>>;
  readonly images: Readonly<Record<string, SealedReference>>;
  readonly dependencies: Readonly<Record<string, SealedReference>>;
}

export interface LockedReference {
  readonly reference: string;
  readonly digest: string;
}

/**
 * A reference that no run pulls, so no verified bytes contradict an edit of it. The seal makes one that was not made
 * by `skycap lock` an error; like everything here it proves nothing against someone who writes the whole entry.
 */
export interface SealedReference extends LockedReference {
  readonly seal: string;
}

export interface LockedImage extends LockedReference {
  /** By `os/architecture[/variant]`. */
  readonly platforms: Readonly<Record<string, LockedPlatform>>;
}

export interface LockedPlatform {
  readonly digest: string;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly env: readonly string[];
  readonly user: string;
  readonly workingDir: string;
  /** Compressed bytes of config and layers. */
  readonly size: number;
  /** Parsed label `dev.skycap.interface`. */
  readonly interface?: unknown;
}

/** The inputs of `build:`; equal inputs are what `--locked` rebuilds from. */
export interface LockedBuild {
  readonly build: {
    readonly context: string;
    readonly dockerfile: string;
    readonly target?: string;
    readonly args: Readonly<Record<string, string>>;
    /** `FROM` lines by reference. */
    readonly bases: Readonly<Record<string, string>>;
  };
}

export interface LockedBake {
  readonly bake: { readonly file: string; readonly name: string; readonly digest: string };
}

export function sealed({ reference, digest }: LockedReference): SealedReference {
  return { reference, digest, seal: digestOf(`${reference}@${digest}`) };
}

export const emptyLock: Lock = { lockVersion: 1, invocationImages: {}, images: {}, dependencies: {} };

/** @throws LOCK_INVALID with the path of the wrong value. */
export function parseLock(text: string, file: string): Lock {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalid(file, 'it is no JSON', cause);
  }
  const root = record(value, file, '');
  if (root.lockVersion !== 1) {
    throw imagesError(
      'LOCK_INVALID',
      `${file}: lockVersion is ${JSON.stringify(root.lockVersion)}; this version reads 1`,
      {
        hint: 'use the version of Skycap that wrote it, or make it anew with: skycap lock --update',
      },
    );
  }
  rejectUnknown(root, ['lockVersion', 'invocationImages', 'images', 'dependencies'], file, '');
  return {
    lockVersion: 1,
    invocationImages: mapValues(record(root.invocationImages, file, 'invocationImages'), (entry, name) =>
      parseImage(entry, file, `invocationImages.${name}`),
    ),
    images: mapValues(record(root.images, file, 'images'), (entry, name) =>
      parseSealed(entry, file, `images.${name}`),
    ),
    dependencies: mapValues(record(root.dependencies, file, 'dependencies'), (entry, name) =>
      parseSealed(entry, file, `dependencies.${name}`),
    ),
  };
}

/** Keys sorted, two spaces, newline at the end: equal locks are equal bytes. */
export function formatLock(lock: Lock): string {
  return `${JSON.stringify(sortKeys(lock), null, 2)}\n`;
}

/** JSON with the keys of every object in code unit order; used for comparing, too. */
export function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sortKeys(item)]),
  );
}

function parseImage(value: unknown, file: string, path: string): LockedImage | LockedBuild | LockedBake {
  const entry = record(value, file, path);
  if ('build' in entry) {
    const build = record(entry.build, file, `${path}.build`);
    rejectUnknown(entry, ['build'], file, path);
    rejectUnknown(build, ['context', 'dockerfile', 'target', 'args', 'bases'], file, `${path}.build`);
    return {
      build: {
        context: digest(build.context, file, `${path}.build.context`),
        dockerfile: digest(build.dockerfile, file, `${path}.build.dockerfile`),
        ...(build.target === undefined ? {} : { target: string(build.target, file, `${path}.build.target`) }),
        args: mapValues(record(build.args, file, `${path}.build.args`), (v, k) =>
          string(v, file, `${path}.build.args.${k}`),
        ),
        bases: mapValues(record(build.bases, file, `${path}.build.bases`), (v, k) =>
          digest(v, file, `${path}.build.bases.${k}`),
        ),
      },
    };
  }
  if ('bake' in entry) {
    const bake = record(entry.bake, file, `${path}.bake`);
    rejectUnknown(entry, ['bake'], file, path);
    rejectUnknown(bake, ['file', 'name', 'digest'], file, `${path}.bake`);
    return {
      bake: {
        file: string(bake.file, file, `${path}.bake.file`),
        name: string(bake.name, file, `${path}.bake.name`),
        digest: digest(bake.digest, file, `${path}.bake.digest`),
      },
    };
  }
  rejectUnknown(entry, ['reference', 'digest', 'platforms'], file, path);
  return {
    reference: string(entry.reference, file, `${path}.reference`),
    digest: digest(entry.digest, file, `${path}.digest`),
    platforms: mapValues(record(entry.platforms, file, `${path}.platforms`), (v, k) =>
      parsePlatformEntry(v, file, `${path}.platforms.${k}`),
    ),
  };
}

function parsePlatformEntry(value: unknown, file: string, path: string): LockedPlatform {
  const entry = record(value, file, path);
  rejectUnknown(
    entry,
    ['digest', 'entrypoint', 'cmd', 'env', 'user', 'workingDir', 'size', 'interface'],
    file,
    path,
  );
  if (typeof entry.size !== 'number' || !Number.isSafeInteger(entry.size) || entry.size < 0) {
    throw invalid(file, `${path}.size is no number of bytes`);
  }
  const wrong = entry.interface === undefined ? undefined : interfaceProblem(entry.interface);
  if (wrong !== undefined) throw invalid(file, `${path}.interface ${wrong}`);
  return {
    digest: digest(entry.digest, file, `${path}.digest`),
    entrypoint: strings(entry.entrypoint, file, `${path}.entrypoint`),
    cmd: strings(entry.cmd, file, `${path}.cmd`),
    env: strings(entry.env, file, `${path}.env`),
    user: string(entry.user, file, `${path}.user`),
    workingDir: string(entry.workingDir, file, `${path}.workingDir`),
    size: entry.size,
    ...(entry.interface === undefined ? {} : { interface: entry.interface }),
  };
}

function parseSealed(value: unknown, file: string, path: string): SealedReference {
  const entry = record(value, file, path);
  rejectUnknown(entry, ['reference', 'digest', 'seal'], file, path);
  const found = sealed({
    reference: string(entry.reference, file, `${path}.reference`),
    digest: digest(entry.digest, file, `${path}.digest`),
  });
  if (entry.seal === found.seal) return found;
  throw invalid(file, `${path} was edited: its seal does not fit its reference and digest`);
}

function record(value: unknown, file: string, path: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw invalid(file, `${path || 'the document'} is ${value === undefined ? 'missing' : 'no object'}`);
}

function string(value: unknown, file: string, path: string): string {
  if (typeof value === 'string') return value;
  throw invalid(file, `${path} is ${value === undefined ? 'missing' : 'no string'}`);
}

function strings(value: unknown, file: string, path: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw invalid(file, `${path} is ${value === undefined ? 'missing' : 'no list of strings'}`);
}

function digest(value: unknown, file: string, path: string): string {
  const text = string(value, file, path);
  if (isDigest(text)) return text;
  throw invalid(file, `${path} is no digest: ${JSON.stringify(text)}`);
}

function rejectUnknown(
  value: Readonly<Record<string, unknown>>,
  known: readonly string[],
  file: string,
  path: string,
): void {
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) throw invalid(file, `unknown key ${path === '' ? key : `${path}.${key}`}`);
  }
}

function mapValues<T>(
  value: Readonly<Record<string, unknown>>,
  map: (item: unknown, key: string) => T,
): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, map(item, key)]));
}

function invalid(file: string, what: string, cause?: unknown): Error {
  return imagesError('LOCK_INVALID', `${file}: ${what}`, {
    hint: 'restore the file from version control, or make it anew with: skycap lock --update',
    place: { file },
    ...(cause === undefined ? {} : { cause }),
  });
}
