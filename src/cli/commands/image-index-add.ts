import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { transferOf } from './image-edit.ts';
import {
  asFlag,
  imagesArgument,
  imagesOf,
  indexArgument,
  indexName,
  indexResult,
  storedIndex,
} from './image-index-common.ts';

export const command: Command = {
  path: 'image index add',
  summary: 'add images to an index',
  description: 'No two images of an index may be for one platform: remove the old one first.',
  arguments: [indexArgument, imagesArgument],
  flags: [asFlag],
  examples: [
    { line: 'skycap image index add localhost/app:1 localhost/app:1-s390x', does: 'one more platform' },
  ],
  async run({ flags, arguments: [text, ...texts] }, context) {
    await using rooms = compose(context);
    const store = await rooms.store();
    const images = await (await import('../../oci/index.ts')).loadImages();
    const { name, digest, value: before } = await storedIndex(store, text as string);
    await using _held = await store.lease(`edit ${name}`, [digest]);
    let value = before;
    for (const added of texts) {
      for (const image of await imagesOf(store, added)) {
        value = images.indexAdd(value, await images.indexEntry(store, image));
      }
    }
    const reference = indexName(flags, name);
    const root = await images.writeIndexValue(store, value, { ...transferOf(context), reference });
    await context.result(await indexResult(reference, root, value));
    return 0;
  },
};
