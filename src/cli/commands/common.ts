// Without node:fs/promises: loading it takes longer than `lint` and `explain` have for reading one file.
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { usage } from '../errors.ts';
import type { Argument, Context, Flag, Flags } from '../types.ts';

export const namespaceFlag: Flag = {
  name: 'namespace',
  short: 'n',
  type: 'string',
  value: 'NAME',
  summary: 'namespace of the installation; without it the configured one, else the global one',
};

export const installationFlag: Flag = {
  name: 'installation',
  short: 'i',
  type: 'string',
  value: 'NAME',
  summary: "the installation; without it the name in this folder's porter.yaml",
};

export const runFlag: Flag = {
  name: 'run',
  short: 'r',
  type: 'string',
  value: 'ID',
  summary: 'a run, by its id',
};

export const fileFlag: Flag = {
  name: 'file',
  short: 'f',
  type: 'string',
  value: 'FILE',
  default: 'porter.yaml',
  summary: "the bundle's porter.yaml, or its folder",
};

export const installationArgument: Argument = {
  name: 'INSTALLATION',
  required: false,
  summary: "name of the installation; without it the name in this folder's porter.yaml",
};

/** Absolute path of the bundle file that `--file` names. */
export async function bundleFile(context: Context, flags: Flags): Promise<string> {
  const path = resolve(context.host.cwd, flags.string('file') ?? 'porter.yaml');
  return isFolder(path) ? resolve(path, 'porter.yaml') : path;
}

/**
 * The installation that is meant where a command leaves it out: the one named like the bundle, or like that of this
 * folder where a command has none.
 * @throws BUNDLE_NOT_FOUND, BUNDLE_UNREADABLE, USAGE
 */
export async function installationName(
  given: string | undefined,
  context: Context,
  bundle?: string,
): Promise<string> {
  if (given !== undefined && given !== '') {
    return given;
  }
  const file = bundle ?? resolve(context.host.cwd, 'porter.yaml');
  const text =
    bundle === undefined
      ? readTextIfThere(file)
      : await (await import('../lint/check.ts')).readBundleText(bundle);
  if (text !== undefined) {
    const { entryOf, loadDocument } = await import('../../document/index.ts');
    const { root } = (await loadDocument()).parseYaml(text, { file });
    const name = root?.kind === 'map' ? entryOf(root, 'name')?.value : undefined;
    if (name?.kind === 'scalar' && typeof name.value === 'string' && name.value !== '') {
      return name.value;
    }
  }
  throw usage('no installation is named', 'name one, or run the command in the folder of its porter.yaml');
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function readTextIfThere(file: string): string | undefined {
  try {
    // A pipe or device would never end.
    return statSync(file).isFile() ? readFileSync(file, 'utf8') : undefined;
  } catch {
    return undefined;
  }
}

/** `KEY=VALUE` words as an object. */
export function pairs(words: readonly string[], flag: string): Readonly<Record<string, string>> {
  const entries = words.map((word) => {
    const equals = word.indexOf('=');
    if (equals < 1) {
      throw usage(`${flag} ${JSON.stringify(word)} has no NAME before =`, `write ${flag} NAME=VALUE`);
    }
    return [word.slice(0, equals), word.slice(equals + 1)] as const;
  });
  return Object.fromEntries(entries);
}
