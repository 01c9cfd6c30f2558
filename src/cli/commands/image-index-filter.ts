import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';
import { transferOf } from './image-edit.ts';
import { asFlag, indexArgument, indexName, indexResult, storedIndex } from './image-index-common.ts';

export const command: Command = {
  path: 'image index filter',
  summary: 'cut an index to some platforms',
  description:
    'Attestations about the images that stay are kept. The other images stay in the store until a prune.',
  arguments: [indexArgument],
  flags: [
    {
      name: 'platform',
      own: true,
      type: 'list',
      value: 'OS/ARCH',
      summary: 'a platform that stays; may be given many times',
    },
    asFlag,
  ],
  examples: [
    {
      line: 'skycap image index filter localhost/app:1 --platform linux/amd64 --platform linux/arm64 --as localhost/app:two',
      does: 'two of them, under another name',
    },
  ],
  async run({ flags, arguments: [text] }, context) {
    const { parsePlatform } = await import('../../oci/names/index.ts');
    const platforms = flags.list('platform').map(parsePlatform);
    if (platforms.length === 0)
      throw usage('no platform is named that is to stay', 'name it with --platform');
    await using rooms = compose(context);
    const store = await rooms.store();
    const images = await (await import('../../oci/index.ts')).loadImages();
    const { name, digest, value: before } = await storedIndex(store, text as string);
    await using _held = await store.lease(`edit ${name}`, [digest]);
    const value = images.indexFilter(before, platforms);
    const reference = indexName(flags, name);
    const root = await images.writeIndexValue(store, value, { ...transferOf(context), reference });
    await context.result(await indexResult(reference, root, value));
    return 0;
  },
};
