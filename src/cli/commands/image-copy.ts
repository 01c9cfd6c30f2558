import type { Copied } from '../../oci/copy/index.ts';
import { compose } from '../compose.ts';
import { properties } from '../render/table.ts';
import { formatBytes } from '../render/units.ts';
import type { Command } from '../types.ts';
import { compressionFlag, compressionOf } from './image-common.ts';
import { openEnds, platformsFlag, scratchOf, transportsText } from './image-ends.ts';

export const command: Command = {
  path: 'image copy',
  summary: 'copy an image from anywhere to anywhere',
  description: `${transportsText} A name without a transport is an image of a registry, as in \`image pull\`.\n\nIndexes are copied whole unless platforms are named: one gives that image alone, several an index cut to them. What the target has is not copied again, layers between repositories of one registry are mounted, and a copy that broke off goes on where it ended. Digests stay; where one cannot, the command says why. Docker's archives and its daemon hold one platform, uncompressed layers and no manifest.`,
  arguments: [
    { name: 'SRC', required: true, summary: 'where the image is' },
    { name: 'DST', required: true, summary: 'where it is to be, under which name' },
  ],
  flags: [
    platformsFlag,
    {
      name: 'referrers',
      type: 'switch',
      summary: 'also what refers to the image: signatures, attestations, SBOMs, cosign’s tags',
    },
    compressionFlag(
      'how layers from Docker’s archives and daemon, where they are uncompressed, are packed for a registry',
    ),
    { name: 'replace', own: true, type: 'switch', summary: 'replace an archive that is there already' },
  ],
  examples: [
    {
      line: 'skycap image copy ghcr.io/acme/tools:1.9 registry.example/tools:1.9 --referrers',
      does: 'to another registry, with its signatures',
    },
    {
      line: 'skycap image copy ghcr.io/acme/tools:1.9 oci-archive:tools.tar',
      does: 'to a file, all platforms',
    },
    {
      line: 'skycap image copy docker-daemon:tools:dev store:localhost/tools:dev',
      does: 'from Docker to the store',
    },
  ],
  async run({ flags, arguments: words }, context) {
    const { hostPlatform, parsePlatform } = await import('../../oci/names/index.ts');
    const platforms = flags.list('platform').map(parsePlatform);
    const referrers = flags.switch('referrers');
    await using rooms = compose(context);
    const compression = compressionOf(flags);
    const { copyImage, packedSource } = await (await import('../../oci/index.ts')).loadCopy();
    const { source: opened, target } = await openEnds(words, {
      context,
      rooms,
      replace: flags.switch('replace'),
    });
    const { signal, emit } = context;
    const isPacked = compression !== 'none' && opened.made !== undefined && target.repository !== undefined;
    const source = isPacked
      ? rooms.own(await packedSource(opened, { compression, scratch: await scratchOf(rooms), signal, emit }))
      : opened;
    const copied = await copyImage(source, target, {
      platforms,
      referrers,
      defaultPlatform: hostPlatform(process),
      signal,
      emit,
    });
    await context.result({
      data: { ...copied, digestPreserved: copied.changed === undefined && copied.made === undefined },
      text: () => text(copied),
    });
    return 0;
  },
};

function text(copied: Copied): string {
  const { blobs, copiedBytes, changed } = copied;
  const moved = [
    `${blobs.copied} copied (${formatBytes(copiedBytes)})`,
    `${blobs.present} there already`,
    `${blobs.mounted} mounted`,
  ];
  return properties([
    ['Source', copied.source],
    ['Target', copied.target],
    ['Digest', copied.digest],
    ['Image id', copied.imageId],
    ['Source digest', changed === undefined ? undefined : copied.sourceDigest],
    ['Changed', changed === undefined ? undefined : `the digest is another: ${changed}`],
    ['Made', copied.made],
    ['Blobs', moved.join(', ')],
    ['Referrers', copied.referrers === 0 ? undefined : String(copied.referrers)],
  ]);
}
