import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { kernelError } from '../../kernel/index.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';
import { pairs } from './common.ts';
import { platformFlag, platformOf } from './image-common.ts';

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
    const found = await stat(path).catch(() => undefined);
    if (found === undefined || !(found.isDirectory() || found.isFile())) {
      throw kernelError('FILE_UNREADABLE', `there is no folder or archive ${path}`, {
        hint: 'check the path',
        place: { file: path },
      });
    }
    const workdir = flags.string('workdir');
    if (workdir !== undefined && !workdir.startsWith('/')) {
      throw usage(
        `--workdir ${JSON.stringify(workdir)} is not absolute`,
        'write the whole path in the image',
      );
    }
    const user = flags.string('user');
    pairs(flags.list('env'), '--env');
    const config = {
      entrypoint: flags.list('entrypoint'),
      cmd: flags.list('cmd'),
      env: flags.list('env'),
      labels: pairs(flags.list('label'), '--label'),
      ...(user === undefined ? {} : { user }),
      ...(workdir === undefined ? {} : { workingDir: workdir }),
    };
    await using rooms = compose(context);
    const { importRootfs } = await (await import('../../oci/index.ts')).loadImages();
    const { signal, emit } = context;
    const image = await importRootfs(
      await rooms.store(),
      {
        ...(found.isDirectory() ? { folder: path } : { tar: path }),
        config,
        reference: name as string,
        platform: platformOf(flags),
      },
      { signal, emit },
    );
    await context.result({
      data: { reference: image.reference, digest: image.digest, sizeBytes: image.size },
      text: () => `${image.reference}@${image.digest}\n`,
    });
    return 0;
  },
};
