import { compose } from '../compose.ts';
import { table } from '../render/table.ts';
import { formatBytes, shortDigest } from '../render/units.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'image list',
  summary: 'list the images of the store',
  arguments: [],
  flags: [],
  examples: [{ line: 'skycap image list', does: 'names, digests, platforms and sizes' }],
  async run(_invocation, context) {
    const { formatPlatform } = await import('../../oci/names/index.ts');
    await using rooms = compose(context);
    const images = [...(await (await rooms.store()).list())].sort((a, b) =>
      a.reference < b.reference ? -1 : 1,
    );
    await context.result({
      data: images.map(({ reference, descriptor, sizeBytes, platforms }) => ({
        reference,
        digest: descriptor.digest,
        mediaType: descriptor.mediaType,
        sizeBytes,
        platforms: platforms.map(formatPlatform),
      })),
      text: () =>
        images.length === 0
          ? 'no images\n'
          : table(
              ['REFERENCE', 'DIGEST', 'PLATFORMS', 'SIZE'],
              images.map((image) => [
                image.reference,
                shortDigest(image.descriptor.digest),
                image.platforms.map(formatPlatform).join(','),
                formatBytes(image.sizeBytes),
              ]),
            ),
    });
    return 0;
  },
};
