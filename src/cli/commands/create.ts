import { chmod, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { isSkycapError } from '../../kernel/index.ts';
import { diskError, ensureDirectory } from '../../kernel/system/index.ts';
import { usage } from '../errors.ts';
import { bundleFiles, imageFiles } from '../scaffold/files.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'create',
  summary: 'start a bundle or an invocation image',
  description:
    'Writes into a new folder NAME, or without a name into this folder. Nothing that is there is overwritten.',
  arguments: [{ name: 'NAME', required: false, summary: 'name of the bundle or image, and of its folder' }],
  flags: [
    {
      name: 'image',
      own: true,
      type: 'switch',
      summary: 'start an invocation image that describes itself, with a test',
    },
  ],
  examples: [
    { line: 'skycap create my-app', does: 'a bundle in the folder my-app' },
    { line: 'skycap create --image site-tools', does: 'an image that steps use with inputs and outputs' },
  ],
  async run({ flags, arguments: [name] }, context) {
    const folder = resolve(context.host.cwd, name ?? '.');
    const plainName = nameFrom(basename(folder), name);
    const files = flags.switch('image') ? imageFiles(plainName) : bundleFiles(plainName);
    const taken = [];
    for (const { path } of files) {
      if ((await stat(join(folder, path)).catch(() => undefined)) !== undefined) {
        taken.push(path);
      }
    }
    if (taken.length > 0) {
      throw usage(`${folder} has ${taken.join(', ')} already`, 'name another folder: skycap create NAME');
    }
    for (const { path, text, executable } of files) {
      const target = join(folder, path);
      try {
        await ensureDirectory(dirname(target));
        await writeFile(target, text, { flag: 'wx' });
        if (executable === true) {
          await chmod(target, 0o755);
        }
      } catch (error) {
        throw unwritable(target, diskError(error, target));
      }
    }
    const where = name === undefined ? '' : ` -f ${name}`;
    await context.result({
      data: { folder, files: files.map(({ path }) => path) },
      text: () =>
        `${files.map(({ path }) => `created ${join(name ?? '', path)}\n`).join('')}next: skycap lint${where}\n`,
    });
    return 0;
  },
};

/** Nothing here is ours to keep in order: what the system says of the folder is said as it is. */
function unwritable(path: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (isSkycapError(error) || typeof code !== 'string') return error;
  return usage(`${path} cannot be written (${code})`, 'name a folder that you may write: skycap create NAME');
}

/** A given name must be right; the folder's is made right. */
function nameFrom(folder: string, given: string | undefined): string {
  const plain = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
  if (plain.test(folder)) {
    return folder;
  }
  if (given !== undefined) {
    throw usage(
      `${JSON.stringify(folder)} is no name for a bundle`,
      'use a-z, 0-9 and -, at most 63 characters, not at the ends -',
    );
  }
  const made = folder
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 63);
  return plain.test(made) ? made : 'my-bundle';
}
