import type { PinnedImage } from '../oci/index.ts';
import { imagesError } from './errors.ts';

export const interfaceLabel = 'dev.skycap.interface';

/** What an image says of itself in the label `dev.skycap.interface` (docs/bundle.md, "Interface"). */
export interface ImageInterface {
  readonly description?: string;
  readonly tools?: Readonly<Record<string, string>>;
  /** JSON Schema by input name. */
  readonly inputs?: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
  readonly outputs?: Readonly<Record<string, unknown>>;
  readonly credentials?: readonly string[];
  readonly command?: readonly string[];
  readonly prepare?: unknown;
}

const known = ['description', 'tools', 'inputs', 'required', 'outputs', 'credentials', 'command', 'prepare'];

/** The label of a verified config; undefined where the image has none. @throws IMAGE_INTERFACE */
export function readInterface(image: Pick<PinnedImage, 'reference' | 'config'>): ImageInterface | undefined {
  const label = image.config.labels[interfaceLabel];
  return label === undefined ? undefined : parseInterface(image.reference, label);
}

/** The text of the label, of the image `reference`. @throws IMAGE_INTERFACE */
export function parseInterface(reference: string, label: string): ImageInterface {
  let value: unknown;
  try {
    value = JSON.parse(label);
  } catch (cause) {
    throw invalid(reference, 'is no JSON', cause);
  }
  const problem = interfaceProblem(value);
  if (problem !== undefined) throw invalid(reference, problem);
  return value as ImageInterface;
}

/** What is wrong with a parsed interface, as the end of a sentence; undefined if nothing is. */
export function interfaceProblem(value: unknown): string | undefined {
  if (!isRecord(value)) return 'is no object';
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown !== undefined) return `has an unknown key ${unknown}`;
  if (value.description !== undefined && typeof value.description !== 'string')
    return 'has a description that is no text';
  for (const key of ['inputs', 'outputs', 'tools']) {
    if (value[key] !== undefined && !isRecord(value[key])) return `has ${key} that are no object`;
  }
  for (const key of ['credentials', 'command', 'required']) {
    const list = value[key];
    if (list !== undefined && !(Array.isArray(list) && list.every((item) => typeof item === 'string'))) {
      return `has ${key} that are no list of texts`;
    }
  }
  return undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(reference: string, what: string, cause?: unknown): Error {
  return imagesError('IMAGE_INTERFACE', `${reference}: the label ${interfaceLabel} ${what}`, {
    hint: 'correct the label in the image, or use `command`, `args` or `run` instead of `with`',
    ...(cause === undefined ? {} : { cause }),
  });
}
