import { compose } from '../compose.ts';
import { properties, section, table } from '../render/table.ts';
import { formatBytes, shortDigest } from '../render/units.ts';
import type { Command } from '../types.ts';
import { missingPart, platformFlag, platformOf } from './image-common.ts';
import { anyImageArgument, openImage, transportsText } from './image-ends.ts';

export const command: Command = {
  path: 'image inspect',
  summary: 'show the manifest and config of an image',
  description: `Of an image in the store or anywhere else; every byte was checked against its digest. ${transportsText}`,
  arguments: [anyImageArgument],
  flags: [platformFlag],
  examples: [
    { line: 'skycap image inspect ghcr.io/acme/tools:1.9 -o json | jq .config.labels', does: 'its labels' },
    { line: 'skycap image inspect docker://ghcr.io/acme/tools:1.9', does: 'of a registry, without pulling' },
  ],
  async run({ flags, arguments: [text] }, context) {
    const { formatPlatform } = await import('../../oci/names/index.ts');
    const platform = platformOf(flags);
    await using rooms = compose(context);
    const source = await openImage(text as string, context, rooms);
    const { readSourceImage } = await (await import('../../oci/index.ts')).loadCopy();
    const { layersOf } = await (await import('../../oci/index.ts')).loadImages();
    const { signal, emit } = context;
    const { root, manifest, value } = await readSourceImage(source, platform, { signal, emit });
    for (const part of value.manifest.layers) {
      if (await source.has(part, { signal, emit })) continue;
      throw missingPart(source.name.replace(/^store:/, ''), formatPlatform(platform));
    }
    const config = value.config.run;
    const layers = layersOf(value).map(({ descriptor, diffId }) => ({
      digest: descriptor.digest,
      diffId,
      size: descriptor.size,
      mediaType: descriptor.mediaType,
    }));
    const size = value.manifest.config.size + layers.reduce((sum, layer) => sum + layer.size, 0);
    const reference = source.name.replace(/^(store:|docker:\/\/)/, '');
    const { annotations } = value.manifest;
    await context.result({
      data: {
        reference,
        repository: reference.replace(/@.*$/, '').replace(/:[^/:]*$/, ''),
        digest: root.digest,
        manifestDigest: manifest.digest,
        configDigest: value.manifest.config.digest,
        platform: formatPlatform(value.config.platform),
        config,
        layers,
        size,
        annotations,
        mediaType: root.mediaType,
      },
      text: () =>
        properties([
          ['Reference', reference],
          ['Digest', root.digest],
          ['Manifest', manifest.digest],
          ['Platform', formatPlatform(value.config.platform)],
          ['Entrypoint', config.entrypoint.length === 0 ? undefined : JSON.stringify(config.entrypoint)],
          ['Cmd', config.cmd.length === 0 ? undefined : JSON.stringify(config.cmd)],
          ['User', config.user === '' ? 'root' : config.user],
          ['Working folder', config.workingDir === '' ? '/' : config.workingDir],
          ['Size', formatBytes(size)],
        ]) +
        section(
          'Environment',
          config.env
            .map((line) => properties([[line.split('=')[0] ?? '', line.slice(line.indexOf('=') + 1)]]))
            .join(''),
        ) +
        section('Labels', properties(Object.entries(config.labels))) +
        section('Annotations', properties(Object.entries(annotations))) +
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
