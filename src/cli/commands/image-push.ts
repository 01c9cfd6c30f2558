import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { imageArgument, platformFlag, platformOf } from './image-common.ts';

export const command: Command = {
  path: 'image push',
  summary: 'push an image of the store to a registry',
  description:
    'What the registry has is not sent again; layers of another repository of the same registry are mounted. Names that begin with `localhost/` are the store’s own: give them a TARGET.',
  arguments: [
    imageArgument,
    { name: 'TARGET', required: false, summary: 'reference to push to; without it the same' },
  ],
  flags: [{ ...platformFlag, summary: 'only this platform of an index' }],
  examples: [
    { line: 'skycap image push localhost/tools:1.0 ghcr.io/acme/tools:1.0', does: 'under another name' },
  ],
  async run({ flags, arguments: [reference, target] }, context) {
    const platform = flags.given('platform') ? platformOf(flags) : undefined;
    await using rooms = compose(context);
    const { pushImage } = await (await import('../../oci/index.ts')).loadImages();
    const { signal, emit } = context;
    const to = target ?? (reference as string);
    const descriptor = await pushImage(await rooms.registry(), await rooms.store(), reference as string, {
      target: to,
      ...(platform === undefined ? {} : { platform }),
      signal,
      emit,
    });
    await context.result({
      data: { reference: to, digest: descriptor.digest, mediaType: descriptor.mediaType },
      text: () => `pushed ${to}@${descriptor.digest}\n`,
    });
    return 0;
  },
};
