import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { pairs } from './common.ts';
import { readReference } from './image-common.ts';
import { transferOf } from './image-edit.ts';
import { imagesArgument, imagesOf, indexResult } from './image-index-common.ts';

export const command: Command = {
  path: 'image index create',
  summary: 'make one name for the images of several platforms',
  description: 'Each image is named for the platform that its config says; no two may be for one platform.',
  arguments: [{ name: 'NAME', required: true, summary: 'name of the index, in the store' }, imagesArgument],
  flags: [
    {
      name: 'annotation',
      own: true,
      type: 'list',
      value: 'KEY=VALUE',
      summary: 'an annotation of the index',
    },
  ],
  examples: [
    {
      line: 'skycap image index create localhost/app:1 localhost/app:1-amd64 localhost/app:1-arm64',
      does: 'of two images',
    },
  ],
  async run({ flags, arguments: [name, ...texts] }, context) {
    const set = pairs(flags.list('annotation'), '--annotation');
    const { name: reference } = readReference(name as string);
    await using rooms = compose(context);
    const store = await rooms.store();
    const images = await (await import('../../oci/index.ts')).loadImages();
    let value = images.emptyIndex();
    for (const text of texts) {
      for (const image of await imagesOf(store, text)) {
        value = images.indexAdd(value, await images.indexEntry(store, image));
      }
    }
    if (Object.keys(set).length > 0) value = images.annotateIndex(value, { set });
    const root = await images.writeIndexValue(store, value, { ...transferOf(context), reference });
    await context.result(await indexResult(reference, root, value));
    return 0;
  },
};
