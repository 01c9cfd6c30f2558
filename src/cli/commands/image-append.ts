import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { kernelError } from '../../kernel/index.ts';
import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { compressionFlag, compressionOf } from './image-common.ts';
import {
  editPlatformFlag,
  held,
  madeResult,
  namedImage,
  resultArgument,
  storedImageArgument,
  transferOf,
} from './image-edit.ts';

export const command: Command = {
  path: 'image append',
  summary: 'put layers on top of an image',
  description:
    'Each folder or tar archive becomes a layer, in the order given. The image records what it was built upon, so that it can be rebased. Signatures of the old image do not hold for the new one.',
  arguments: [
    storedImageArgument,
    resultArgument,
    {
      name: 'PATH',
      required: true,
      variadic: true,
      summary: 'a folder, or a tar archive (gzip or zstd packed too)',
    },
  ],
  flags: [editPlatformFlag, compressionFlag('how the new layers are packed')],
  examples: [
    { line: 'skycap image append ghcr.io/acme/base:1 localhost/app:1 rootfs', does: 'a folder on top' },
  ],
  async run({ flags, arguments: [text, name, ...paths] }, context) {
    const sources = [];
    for (const path of paths) sources.push(await sourceOf(resolve(context.host.cwd, path)));
    const compression = compressionOf(flags);
    await using rooms = compose(context);
    const store = await rooms.store();
    const base = await namedImage(store, text as string, flags);
    await using _held = await held(store, base);
    const images = await (await import('../../oci/index.ts')).loadImages();
    const transfer = transferOf(context);
    const layers = [];
    for (const source of sources)
      layers.push(await images.addLayer(store, source, { ...transfer, compression }));
    const before = await images.readImageValue(store, base);
    const appended = images.appendLayers(before, layers);
    const isOci = before.manifest.mediaType.startsWith('application/vnd.oci.');
    const known = images.baseSplit(before);
    // What it is built upon stays what it was: these layers are the image's own, too.
    const records = isOci && typeof known !== 'number';
    const set = images.baseAnnotations({ image: before, name: base.reference, digest: base.digest });
    const value = records ? images.annotate(appended, { set }) : appended;
    const image = await images.writeImageValue(store, value, { ...transfer, reference: name as string });
    await context.result(madeResult(image));
    return 0;
  },
};

async function sourceOf(path: string): Promise<{ readonly folder: string } | { readonly tar: string }> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() === true) return { folder: path };
  if (found?.isFile() === true) return { tar: path };
  throw kernelError('FILE_UNREADABLE', `there is no folder or archive ${path}`, {
    hint: 'check the path',
    place: { file: path },
  });
}
