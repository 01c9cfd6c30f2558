import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { findImage } from './image-common.ts';

export const command: Command = {
  path: 'image rm',
  summary: 'take the name from an image of the store',
  description:
    'What no other image needs goes with a later `skycap image prune`, which keeps for a day what was used.',
  arguments: [{ name: 'IMAGE', required: true, variadic: true, summary: 'references of images' }],
  flags: [],
  examples: [{ line: 'skycap image rm ghcr.io/acme/tools:1.9', does: 'forget one name' }],
  async run({ arguments: texts }, context) {
    await using rooms = compose(context);
    const store = await rooms.store();
    const found: Awaited<ReturnType<typeof findImage>>[] = [];
    for (const text of texts) {
      found.push(await findImage(store, text));
    }
    for (const { name } of found) {
      await store.untag(name);
    }
    await context.result({
      data: {
        removed: found.map(({ name, descriptor }) => ({ reference: name, digest: descriptor.digest })),
      },
      text: () => found.map(({ name }) => `removed ${name}\n`).join(''),
    });
    return 0;
  },
};
