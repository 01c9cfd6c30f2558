import { ociError } from '../errors.ts';
import type { ImageRunConfig } from '../types.ts';
import { isObject, type JsonObject } from './json.ts';
import { editImage, historyOf, type ImageLayer, type ImageValue, layersOf } from './value.ts';

/** image-spec, annotations.md: what an image was built upon. */
export const BASE_NAME = 'org.opencontainers.image.base.name';
export const BASE_DIGEST = 'org.opencontainers.image.base.digest';

const EPOCH = new Date(0).toISOString();

/** One step of a config's history for a layer of ours. It takes the image's own time, so that equal input stays equal. */
export function historyStep(image: ImageValue, createdBy: string, comment?: string): JsonObject {
  const { created } = image.config.raw;
  return {
    created: typeof created === 'string' ? created : EPOCH,
    created_by: createdBy,
    ...(comment === undefined ? {} : { comment }),
  };
}

/**
 * The image with more layers on top, in their order. The history grows with it where there is one.
 *
 * @param createdBy What the history says of each layer.
 */
export function appendLayers(
  image: ImageValue,
  layers: readonly ImageLayer[],
  createdBy = 'skycap image append',
): ImageValue {
  const history = historyOf(image);
  // A history without a single layer step says nothing of the layers; one added step would make it wrong.
  const told = history.some((step) => step.empty_layer !== true) || layersOf(image).length === 0;
  return editImage(image, {
    layers: [...layersOf(image), ...layers],
    history: told ? [...history, ...layers.map(() => historyStep(image, createdBy))] : history,
  });
}

const CONFIG_NAMES = {
  user: 'User',
  env: 'Env',
  entrypoint: 'Entrypoint',
  cmd: 'Cmd',
  workingDir: 'WorkingDir',
  labels: 'Labels',
  stopSignal: 'StopSignal',
} as const satisfies Record<keyof ImageRunConfig, string>;

/**
 * The image with other run settings. What is left out stays, an empty value removes. As with Docker, a new entrypoint
 * without a cmd drops the old cmd: it was made for the old entrypoint.
 */
export function withRunConfig(image: ImageValue, edit: Partial<ImageRunConfig>): ImageValue {
  const raw = image.config.raw;
  const run: Record<string, unknown> = { ...(isObject(raw.config) ? raw.config : {}) };
  const full = edit.entrypoint !== undefined && edit.cmd === undefined ? { ...edit, cmd: [] } : edit;
  for (const [key, value] of Object.entries(full)) {
    const name = CONFIG_NAMES[key as keyof ImageRunConfig];
    if (isEmpty(value)) delete run[name];
    else run[name] = value;
  }
  return editImage(image, { config: { ...raw, config: run } });
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

/** Sets variables by name: one that is there is replaced where it stands, a new one comes last. */
export function withEnv(
  env: readonly string[],
  changes: Readonly<Record<string, string>>,
): readonly string[] {
  const left = new Map(Object.entries(changes));
  const kept = env.map((line) => {
    const name = line.split('=', 1)[0] as string;
    const value = left.get(name);
    if (value === undefined) return line;
    left.delete(name);
    return `${name}=${value}`;
  });
  return [...kept, ...[...left].map(([name, value]) => `${name}=${value}`)];
}

export interface AnnotationEdit {
  readonly set?: Readonly<Record<string, string>>;
  readonly remove?: readonly string[];
}

/**
 * The image with other annotations on its manifest (image-spec, annotations.md).
 *
 * @throws OCI_EDIT_INVALID for a Docker manifest: schema 2 has no annotations, so they would be lost at the first reader
 */
export function annotate(image: ImageValue, edit: AnnotationEdit): ImageValue {
  if (!image.manifest.mediaType.startsWith('application/vnd.oci.')) {
    throw ociError('OCI_EDIT_INVALID', `a manifest of type ${image.manifest.mediaType} has no annotations`, {
      hint: 'use labels, which stand in the config',
    });
  }
  return editImage(image, { annotations: changedAnnotations(image.manifest.annotations, edit) });
}

/** Annotations after an edit; a key both removed and set is set. */
export function changedAnnotations(
  before: Readonly<Record<string, string>>,
  edit: AnnotationEdit,
): Readonly<Record<string, string>> {
  const removed = new Set(edit.remove);
  const kept = Object.entries(before).filter(([key]) => !removed.has(key));
  return { ...Object.fromEntries(kept), ...edit.set };
}

/**
 * All layers from `keep` on replaced by one that holds what they come to; `keep` 0 is a flattened image. `mergeLayers`
 * makes such a layer. The history tells of the layers that stay, and of the rest in one step.
 *
 * @param keep How many of the lowest layers stay.
 * @throws OCI_EDIT_INVALID where there are not as many
 */
export function squash(image: ImageValue, keep: number, merged: ImageLayer): ImageValue {
  const layers = layersOf(image);
  checkKeep(image, keep);
  const { kept, rest } = splitHistory(historyOf(image), keep);
  const told = rest.map((step) => String(step.created_by ?? '')).filter((text) => text !== '');
  const createdBy = keep === 0 ? 'skycap image flatten' : `skycap image flatten --keep ${keep}`;
  const step = historyStep(image, createdBy, told.length === 0 ? undefined : told.join('\n'));
  return editImage(image, {
    layers: [...layers.slice(0, keep), merged],
    history: kept.length === 0 && rest.length === 0 ? [] : [...kept, step],
  });
}

/** Whether `squash` can leave the lowest `keep` layers as they are. @throws OCI_EDIT_INVALID where it cannot */
export function checkKeep(image: ImageValue, keep: number): void {
  const count = image.manifest.layers.length;
  if (Number.isInteger(keep) && keep >= 0 && keep < count) return;
  throw ociError(
    'OCI_EDIT_INVALID',
    `${keep} layers cannot stay below a merged one: the image has ${count}`,
    {
      hint: count === 0 ? 'the image has nothing to merge' : `keep 0 to ${count - 1}`,
    },
  );
}

/** The history up to and with the step of the `count`th layer; steps that made no layer go with the layer before. */
export function splitHistory(
  history: readonly JsonObject[],
  count: number,
): { readonly kept: readonly JsonObject[]; readonly rest: readonly JsonObject[] } {
  let layers = 0;
  const end = history.findIndex((step) => {
    if (step.empty_layer !== true) layers += 1;
    return layers > count;
  });
  if (end === -1) return { kept: history, rest: [] };
  return { kept: history.slice(0, end), rest: history.slice(end) };
}
