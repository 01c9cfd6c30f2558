import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isSkycapError, kernelError, SkycapError } from '../../kernel/index.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';
import { pairs } from './common.ts';
import { platformFlag, platformOf, userOf } from './image-common.ts';

export const command: Command = {
  path: 'image import',
  summary: 'make an image of a folder or tar archive',
  description:
    'The folder or archive becomes the only layer; equal input gives an equal digest. Owners, modes and links are kept.',
  arguments: [
    {
      name: 'PATH',
      required: true,
      summary: 'a folder that becomes the root, or a tar archive of one (gzip or zstd packed too)',
    },
    { name: 'IMAGE', required: true, summary: 'name of the image, e.g. localhost/tools:1.0' },
  ],
  flags: [
    platformFlag,
    {
      name: 'entrypoint',
      own: true,
      type: 'list',
      value: 'WORD',
      summary: 'the entrypoint, one word each time',
    },
    { name: 'cmd', own: true, type: 'list', value: 'WORD', summary: 'the command, one word each time' },
    { name: 'env', own: true, type: 'list', value: 'NAME=VALUE', summary: 'a variable of its environment' },
    {
      name: 'label',
      own: true,
      type: 'list',
      value: 'KEY=VALUE',
      summary: 'a label, for example dev.skycap.interface',
    },
    { name: 'user', own: true, type: 'string', value: 'USER', summary: 'the user that it runs as' },
    { name: 'workdir', own: true, type: 'string', value: 'PATH', summary: 'its working folder' },
  ],
  examples: [
    {
      line: 'skycap image import rootfs localhost/tools:1.0 --entrypoint /usr/bin/tool',
      does: 'from a folder',
    },
  ],
  async run({ flags, arguments: [given, name] }, context) {
    const path = resolve(context.host.cwd, given as string);
    const kind = await kindOf(path);
    const workdir = flags.string('workdir');
    if (workdir !== undefined && !workdir.startsWith('/')) {
      throw usage(
        `--workdir ${JSON.stringify(workdir)} is not absolute`,
        'write the whole path in the image',
      );
    }
    const user = userOf(flags);
    pairs(flags.list('env'), '--env');
    const labels = pairs(flags.list('label'), '--label');
    await checkInterface(name as string, labels);
    const config = {
      entrypoint: flags.list('entrypoint'),
      cmd: flags.list('cmd'),
      env: flags.list('env'),
      labels,
      ...(user === undefined ? {} : { user }),
      ...(workdir === undefined ? {} : { workingDir: workdir }),
    };
    await using rooms = compose(context);
    const { importRootfs } = await (await import('../../oci/index.ts')).loadImages();
    const { signal, emit } = context;
    const image = await importRootfs(
      await rooms.store(),
      {
        ...(kind === 'folder' ? { folder: path } : { tar: path }),
        config,
        reference: name as string,
        platform: platformOf(flags),
      },
      { signal, emit },
    ).catch((error: unknown) => {
      throw importFault(error, path);
    });
    await context.result({
      data: { reference: image.reference, digest: image.digest, sizeBytes: image.size },
      text: () => `${image.reference}@${image.digest}\n`,
    });
    return 0;
  },
};

const whatToGive =
  'give a folder that becomes the root, or a tar archive of one, plain or packed by gzip or zstd';

/** @throws FILE_UNREADABLE for what is neither folder nor file: a device would be read without end */
async function kindOf(path: string): Promise<'folder' | 'archive'> {
  const unreadable = (what: string, hint: string): Error =>
    kernelError('FILE_UNREADABLE', `${path} ${what}`, { hint, place: { file: path } });
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw unreadable('is not there', 'check the path');
  if (found.isDirectory()) return 'folder';
  if (!found.isFile()) throw unreadable('is neither a folder nor a file', whatToGive);
  if (found.size === 0) throw unreadable('is empty, so it is no tar archive', whatToGive);
  return 'archive';
}

/** A step with `with:` would fail on it only much later. */
async function checkInterface(name: string, labels: Readonly<Record<string, string>>): Promise<void> {
  const { interfaceLabel, parseInterface } = await import('../../images/index.ts');
  const label = labels[interfaceLabel];
  if (label !== undefined) parseInterface(name, label);
}

/** What is wrong is the file that was named, not an image of somebody else. */
function importFault(error: unknown, path: string): unknown {
  if (isSkycapError(error, 'OCI_LAYER_INVALID')) {
    return new SkycapError(error.code, error.exitCode, `${path} cannot be imported: ${error.message}`, {
      hint: whatToGive,
      place: { file: path },
      cause: error,
    });
  }
  const { syscall, message } = error as { readonly syscall?: unknown; readonly message?: string };
  if (isSkycapError(error) || (syscall !== 'read' && syscall !== 'open')) return error;
  return kernelError('FILE_UNREADABLE', `${path} cannot be read: ${message ?? ''}`, {
    hint: 'check the rights of the file and the disk',
    place: { file: path },
    cause: error,
  });
}
