import { compose } from '../compose.ts';
import { properties, section, table } from '../render/table.ts';
import { formatBytes, shortDigest } from '../render/units.ts';
import type { Command } from '../types.ts';
import { findImage, imageArgument, missingPart, platformFlag, platformOf } from './image-common.ts';

export const command: Command = {
  path: 'image inspect',
  summary: 'show the manifest and config of an image',
  description: 'Of an image in the store; every byte was checked against its digest.',
  arguments: [imageArgument],
  flags: [platformFlag],
  examples: [
    { line: 'skycap image inspect ghcr.io/acme/tools:1.9 -o json | jq .config.labels', does: 'its labels' },
  ],
  async run({ flags, arguments: [text] }, context) {
    const { formatPlatform } = await import('../../oci/names/index.ts');
    const platform = platformOf(flags);
    await using rooms = compose(context);
    const store = await rooms.store();
    const { name, descriptor } = await findImage(store, text as string);
    const { pinnedFromStore } = await (await import('../../oci/index.ts')).loadImages();
    const image = await pinnedFromStore(store, name, platform);
    if (image === undefined) {
      throw missingPart(name, formatPlatform(platform));
    }
    const { config, layers } = image;
    await context.result({
      data: { ...image, mediaType: descriptor.mediaType, platform: formatPlatform(image.platform) },
      text: () =>
        properties([
          ['Reference', image.reference],
          ['Digest', image.digest],
          ['Manifest', image.manifestDigest],
          ['Platform', formatPlatform(image.platform)],
          ['Entrypoint', config.entrypoint.length === 0 ? undefined : JSON.stringify(config.entrypoint)],
          ['Cmd', config.cmd.length === 0 ? undefined : JSON.stringify(config.cmd)],
          ['User', config.user === '' ? 'root' : config.user],
          ['Working folder', config.workingDir === '' ? '/' : config.workingDir],
          ['Size', formatBytes(image.size)],
        ]) +
        section(
          'Environment',
          config.env
            .map((line) => properties([[line.split('=')[0] ?? '', line.slice(line.indexOf('=') + 1)]]))
            .join(''),
        ) +
        section('Labels', properties(Object.entries(config.labels))) +
        section(
          'Layers',
          table(
            ['DIGEST', 'SIZE', 'TYPE'],
            layers.map((layer) => [shortDigest(layer.digest), formatBytes(layer.size), layer.mediaType]),
          ),
        ),
    });
    return 0;
  },
};
