import { imageFault } from '../../oci/index.ts';
import { compose } from '../compose.ts';
import { formatBytes } from '../render/units.ts';
import type { Command } from '../types.ts';
import { imageArgument, platformFlag, platformOf } from './image-common.ts';

export const command: Command = {
  path: 'image pull',
  summary: 'pull an image into the store',
  description: 'Every byte is checked against its digest; a transfer that broke off goes on where it ended.',
  arguments: [imageArgument],
  flags: [platformFlag],
  examples: [{ line: 'skycap image pull ghcr.io/acme/tools:1.9', does: "this machine's platform" }],
  async run({ flags, arguments: [reference] }, context) {
    const platform = platformOf(flags);
    await using rooms = compose(context);
    const { pullImage } = await (await import('../../oci/index.ts')).loadImages();
    const { signal, emit } = context;
    const image = await pullImage(await rooms.registry(), await rooms.store(), reference as string, {
      platform,
      signal,
      emit,
    }).catch((error: unknown) => {
      throw imageFault(reference as string, error);
    });
    await context.result({
      data: {
        reference: image.reference,
        digest: image.digest,
        manifestDigest: image.manifestDigest,
        sizeBytes: image.size,
      },
      text: () => `${image.reference}@${image.digest} ${formatBytes(image.size)}\n`,
    });
    return 0;
  },
};
