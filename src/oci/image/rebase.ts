import { ociError } from '../errors.ts';
import { formatPlatform } from '../names/index.ts';
import type { Digest, ImageRunConfig } from '../types.ts';
import { BASE_DIGEST, BASE_NAME, historyStep, splitHistory } from './edit.ts';
import type { FileTree } from './file-tree.ts';
import { isWhiteout, shownPath } from './file-tree.ts';
import { isObject, type JsonObject } from './json.ts';
import { editImage, historyOf, type ImageValue, layersOf } from './value.ts';

/** Where our own base ends: how many layers it has and the diffID of its topmost. */
const BASE_LAYERS = 'dev.skycap.base.layers';
const BASE_TOP = 'dev.skycap.base.top-layer';

/** Labels of Cloud Native Buildpacks (platform.md, "Rebaser"; distribution.md, "Target metadata"). */
const LIFECYCLE = 'io.buildpacks.lifecycle.metadata';
const REBASABLE = 'io.buildpacks.rebasable';
const STACK = 'io.buildpacks.stack.id';
const MIXINS = 'io.buildpacks.stack.mixins';
const DISTRO = ['io.buildpacks.base.distro.name', 'io.buildpacks.base.distro.version'] as const;

export interface NewBase {
  readonly image: ImageValue;
  /** As it is to be recorded, without a digest. */
  readonly name: string;
  /** Digest of what `name` led to: of the index where there is one. */
  readonly digest: Digest;
}

export interface OldBase {
  readonly image: ImageValue;
  readonly digest: Digest;
}

export interface RebaseOptions {
  readonly newBase: NewBase;
  /** Without it the image must have recorded where its base ends. */
  readonly oldBase?: OldBase;
  /** What `baseConflicts` found, as far as it is not allowed. */
  readonly conflicts: readonly string[];
}

/** A reason why an image cannot be put on another base. */
export interface RebaseProblem {
  readonly condition:
    | 'split'
    | 'prefix'
    | 'base-digest'
    | 'platform'
    | 'distribution'
    | 'stack'
    | 'rebasable'
    | 'run-image'
    | 'conflict';
  readonly message: string;
}

/**
 * How many layers of the image are its base's, with what says so: the old base itself, our own record, or that of
 * Buildpacks. All that is there has to agree.
 */
export function baseSplit(image: ImageValue, oldBase?: OldBase): number | RebaseProblem {
  const said = [
    ...(oldBase === undefined ? [] : [oldBase.image.manifest.layers.length]),
    ...recordedSplit(image),
  ];
  const [first, ...others] = said;
  if (first === undefined) {
    return problem('split', 'the image does not record where its base ends, and no old base is given');
  }
  const other = others.find((count) => count !== first);
  if (other !== undefined) {
    return problem('split', `its base is said to end after ${first} layers, and after ${other}`);
  }
  return first;
}

function recordedSplit(image: ImageValue): readonly number[] {
  const { annotations } = image.manifest;
  const diffIds = image.config.diffIds as readonly string[];
  const found: number[] = [];
  const top = annotations[BASE_TOP];
  const count = annotations[BASE_LAYERS];
  if (top !== undefined || count !== undefined) {
    const matches = count !== undefined && /^[0-9]{1,4}$/.test(count) && diffIds[Number(count) - 1] === top;
    found.push(matches ? Number(count) : -1);
  }
  const topLayer = runImage(image)?.topLayer;
  if (typeof topLayer === 'string') found.push(diffIds.indexOf(topLayer) + 1 || -1);
  return found;
}

function runImage(image: ImageValue): JsonObject | undefined {
  const lifecycle = lifecycleOf(image);
  return isObject(lifecycle?.runImage) ? lifecycle.runImage : undefined;
}

function lifecycleOf(image: ImageValue): JsonObject | undefined {
  try {
    const value = JSON.parse(image.config.run.labels[LIFECYCLE] ?? 'null') as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Every condition that does not hold. The conditions are those of crane and of Buildpacks together, and two more: a
 * wrong base shows at run time only, so all of them have to hold.
 */
export function rebaseProblems(image: ImageValue, options: RebaseOptions): readonly RebaseProblem[] {
  const split = baseSplit(image, options.oldBase);
  return [
    ...splitProblems(image, split, options.oldBase),
    ...platformProblems(image, options.newBase.image),
    ...labelProblems(image, options.newBase),
    ...options.conflicts.map((text) => problem('conflict', text)),
  ];
}

function splitProblems(
  image: ImageValue,
  split: number | RebaseProblem,
  oldBase: OldBase | undefined,
): readonly RebaseProblem[] {
  if (typeof split !== 'number') return [split];
  if (split < 0 || split > image.manifest.layers.length) {
    return [problem('split', 'what the image records of its base does not fit its layers')];
  }
  if (oldBase === undefined) return [];
  const found: RebaseProblem[] = [];
  const different = oldBase.image.config.diffIds.findIndex(
    (diffId, at) => diffId !== image.config.diffIds[at],
  );
  if (different !== -1)
    found.push(problem('prefix', `layer ${different + 1} of the old base is not the image's`));
  const recorded = image.manifest.annotations[BASE_DIGEST];
  if (recorded !== undefined && recorded !== oldBase.digest) {
    found.push(
      problem('base-digest', `the image records the base ${recorded}, and ${oldBase.digest} is given`),
    );
  }
  return found;
}

function platformProblems(image: ImageValue, base: ImageValue): readonly RebaseProblem[] {
  const [own, other] = [formatPlatform(image.config.platform), formatPlatform(base.config.platform)];
  return own === other ? [] : [problem('platform', `the image is for ${own}, and the new base for ${other}`)];
}

function labelProblems(image: ImageValue, newBase: NewBase): readonly RebaseProblem[] {
  const own = image.config.run.labels;
  const base = newBase.image.config.run.labels;
  const found: RebaseProblem[] = [];
  if (own[REBASABLE] === 'false') found.push(problem('rebasable', `its label ${REBASABLE} is false`));
  for (const label of DISTRO) {
    // Blank fits anything, on either side.
    if (!own[label] || !base[label] || own[label] === base[label]) continue;
    found.push(problem('distribution', `${label} is ${own[label]}, and ${base[label]} in the new base`));
  }
  if (own[STACK] && own[STACK] !== base[STACK]) {
    found.push(problem('stack', `its stack is ${own[STACK]}, and ${base[STACK] ?? 'none'} in the new base`));
  }
  const missing = mixinsOf(own).filter((mixin) => !mixinsOf(base).includes(mixin));
  if (missing.length > 0) found.push(problem('stack', `the new base lacks the mixins ${missing.join(', ')}`));
  const run = runImage(image);
  const named = run === undefined ? [] : [run.image, ...(Array.isArray(run.mirrors) ? run.mirrors : [])];
  const known = named.filter((name) => typeof name === 'string');
  if (known.length > 0 && !known.some((name) => sameRepository(name, newBase.name))) {
    found.push(problem('run-image', `${newBase.name} is none of its run images (${known.join(', ')})`));
  }
  return found;
}

function mixinsOf(labels: ImageRunConfig['labels']): readonly string[] {
  try {
    const value = JSON.parse(labels[MIXINS] ?? '[]') as unknown;
    return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
  } catch {
    return [];
  }
}

function sameRepository(a: string, b: string): boolean {
  const bare = (name: string): string =>
    name
      .replace(/@.*$/, '')
      .replace(/:[^/]*$/, '')
      .replace(/^(index\.)?docker\.io\/(library\/)?/, '');
  return bare(a) === bare(b);
}

function problem(condition: RebaseProblem['condition'], message: string): RebaseProblem {
  return { condition, message };
}

/**
 * The image on another base: its own layers and settings stay, the base's layers and the platform's details are the
 * new base's, the history is both, and what records the base is brought up to date. User annotations stay. Signatures
 * are of the old digest, and nothing of them is carried over.
 *
 * @throws OCI_REBASE_REFUSED with every condition that does not hold
 */
export function rebase(image: ImageValue, options: RebaseOptions): ImageValue {
  const problems = rebaseProblems(image, options);
  const split = baseSplit(image, options.oldBase);
  if (problems.length > 0 || typeof split !== 'number') {
    throw ociError(
      'OCI_REBASE_REFUSED',
      `the image cannot be put on ${options.newBase.name}: ${problems.map((p) => p.message).join('; ')}`,
      { hint: hintFor(problems), details: { problems } },
    );
  }
  const { newBase } = options;
  const layers = [...layersOf(newBase.image), ...layersOf(image).slice(split)];
  const { variant: _variant, 'os.version': _version, 'os.features': _features, ...own } = image.config.raw;
  return editImage(image, {
    layers,
    history: rebasedHistory(image, newBase.image, split),
    config: { ...own, ...platformFields(newBase.image.config.raw), config: runFields(image, newBase) },
    annotations: isOci(image) ? { ...image.manifest.annotations, ...baseAnnotations(newBase) } : {},
  });
}

function hintFor(problems: readonly RebaseProblem[]): string {
  const conditions = new Set(problems.map((p) => p.condition));
  if (conditions.has('split')) return 'name the old base, as the image was built on it';
  if (conditions.has('conflict') && conditions.size === 1) {
    return 'allow it (--allow-conflicts) if the files are meant to win over the new base, else build the image anew';
  }
  return 'build the image anew on the new base';
}

function isOci(image: ImageValue): boolean {
  return image.manifest.mediaType.startsWith('application/vnd.oci.');
}

/** What an image on this base records, so that it can be put on another later. */
export function baseAnnotations(base: NewBase): Readonly<Record<string, string>> {
  const top = base.image.config.diffIds.at(-1);
  return {
    [BASE_NAME]: base.name,
    [BASE_DIGEST]: base.digest,
    ...(top === undefined
      ? {}
      : { [BASE_LAYERS]: String(base.image.manifest.layers.length), [BASE_TOP]: top }),
  };
}

function rebasedHistory(image: ImageValue, base: ImageValue, split: number): readonly JsonObject[] {
  const own = historyOf(image);
  const below = historyOf(base);
  const { rest } = splitHistory(own, split);
  const filled = rest.filter((step) => step.empty_layer !== true).length;
  const tail = image.manifest.layers.length - split;
  if (below.length === 0 && own.length === 0) return [];
  // One of the two tells nothing: its layers are named all the same, for the numbers have to agree.
  const steps = (count: number): readonly JsonObject[] =>
    Array.from({ length: count }, () => historyStep(image, 'skycap image rebase'));
  const baseSteps = below.some((step) => step.empty_layer !== true)
    ? below
    : steps(base.manifest.layers.length);
  return [...baseSteps, ...(filled === tail ? rest : steps(tail))];
}

function platformFields(raw: JsonObject): JsonObject {
  const names = ['os', 'architecture', 'variant', 'os.version', 'os.features'];
  return Object.fromEntries(names.flatMap((name) => (raw[name] === undefined ? [] : [[name, raw[name]]])));
}

/** The image's own settings; of labels those about the base follow it. */
function runFields(image: ImageValue, newBase: NewBase): JsonObject {
  const run = isObject(image.config.raw.config) ? image.config.raw.config : {};
  const labels: Record<string, string> = { ...image.config.run.labels };
  const base = newBase.image.config.run.labels;
  const followed = Object.keys({ ...labels, ...base }).filter((name) =>
    /^io\.buildpacks\.(base|stack)\./.test(name),
  );
  for (const name of followed) {
    const value = base[name];
    if (value === undefined) delete labels[name];
    else labels[name] = value;
  }
  const lifecycle = lifecycleOf(image);
  const known = runImage(image);
  if (lifecycle !== undefined && known !== undefined) {
    const topLayer = newBase.image.config.diffIds.at(-1);
    const reference = `${newBase.name.replace(/:[^/:]*$/, '')}@${newBase.digest}`;
    labels[LIFECYCLE] = JSON.stringify({ ...lifecycle, runImage: { ...known, topLayer, reference } });
  }
  return Object.keys(labels).length === 0 ? run : { ...run, Labels: labels };
}

/**
 * Files by which the image's own layers and a base get into each other's way: what the own layers delete, replace or
 * link to of the old base, and what they would hide of the new one. Directories that both have with equal mode and
 * owner are no conflict. Sorted, one sentence each.
 *
 * @param own The image's own layers alone, read with `keepWhiteouts`.
 */
export function baseConflicts(own: FileTree, oldBase: FileTree, newBase: FileTree): readonly string[] {
  const found: string[] = [];
  for (const [path, node] of own) {
    const shown = shownPath(path);
    const old = oldBase.get(path);
    const now = newBase.get(path);
    if (isWhiteout(node.entry)) {
      if (old !== undefined || now !== undefined) found.push(`it deletes ${shown} of the base`);
    } else if (node.opaque === true && path !== '' && (old ?? now) !== undefined) {
      found.push(`it replaces the folder ${shown} of the base`);
    } else if (old !== undefined && clashes(node, old)) found.push(`it replaces ${shown} of the base`);
    else if (now !== undefined && clashes(node, now)) found.push(`it would hide ${shown} of the new base`);
  }
  return found;
}

function clashes(own: { readonly entry: FileEntry }, base: { readonly entry: FileEntry }): boolean {
  const [a, b] = [own.entry, base.entry];
  if (a.type !== 'directory' || b.type !== 'directory') return true;
  // A directory that is only on the way to a file has our default attributes, and keeps those of the base.
  const implied = a.mode === 0o755 && a.uid === 0 && a.gid === 0;
  return !implied && (a.mode !== b.mode || a.uid !== b.uid || a.gid !== b.gid);
}

type FileEntry = { readonly type: string; readonly mode: number; readonly uid: number; readonly gid: number };
