import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';
import { transferOf } from './image-edit.ts';
import { asFlag, indexArgument, indexName, indexResult, storedIndex } from './image-index-common.ts';

export const command: Command = {
  path: 'image index remove',
  summary: 'take images out of an index',
  description:
    'By platform or by digest, with the attestations about them. The images themselves stay until a prune.',
  arguments: [indexArgument],
  flags: [
    {
      name: 'platform',
      own: true,
      type: 'list',
      value: 'OS/ARCH',
      summary: 'the image for exactly this platform; may be given many times',
    },
    {
      name: 'digest',
      own: true,
      type: 'list',
      value: 'DIGEST',
      summary: 'the manifest with this digest; may be given many times',
    },
    asFlag,
  ],
  examples: [
    { line: 'skycap image index remove localhost/app:1 --platform linux/s390x', does: 'one platform less' },
  ],
  async run({ flags, arguments: [text] }, context) {
    const { parseDigest, parsePlatform } = await import('../../oci/names/index.ts');
    const picks = [
      ...flags.list('platform').map((word) => ({ platform: parsePlatform(word) })),
      ...flags.list('digest').map((word) => ({ digest: parseDigest(word) })),
    ];
    if (picks.length === 0)
      throw usage('nothing is named that is to be removed', 'name it with --platform or --digest');
    await using rooms = compose(context);
    const store = await rooms.store();
    const images = await (await import('../../oci/index.ts')).loadImages();
    const { name, digest, value: before } = await storedIndex(store, text as string);
    await using _held = await store.lease(`edit ${name}`, [digest]);
    const value = picks.reduce(images.indexRemove, before);
    const reference = indexName(flags, name);
    const root = await images.writeIndexValue(store, value, { ...transferOf(context), reference });
    await context.result(await indexResult(reference, root, value));
    return 0;
  },
};
