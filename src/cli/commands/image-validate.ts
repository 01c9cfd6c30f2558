import { compose } from '../compose.ts';
import { table } from '../render/table.ts';
import { counted, formatBytes, shortDigest } from '../render/units.ts';
import type { Command } from '../types.ts';
import { anyImageArgument, openImage, platformsFlag, transportsText } from './image-ends.ts';

export const command: Command = {
  path: 'image validate',
  summary: 'check every byte of an image, wherever it is',
  description: `Digests and sizes, the form of manifests and configs, layers that do not unpack to what the config names or that would reach outside their root, platforms that are not what the index says. Exit code 21 if there are errors; warnings do not count. ${transportsText}`,
  arguments: [anyImageArgument],
  flags: [platformsFlag],
  examples: [
    { line: 'skycap image validate oci-archive:tools.tar', does: 'a file that came by post' },
    {
      line: 'skycap image validate docker://ghcr.io/acme/tools:1.9',
      does: 'all platforms of a registry’s image',
    },
  ],
  async run({ flags, arguments: [text] }, context) {
    const { parsePlatform } = await import('../../oci/names/index.ts');
    const platforms = flags.list('platform').map(parsePlatform);
    await using rooms = compose(context);
    const source = await openImage(text as string, context, rooms);
    const { validateImage } = await (await import('../../oci/index.ts')).loadCopy();
    const { signal, emit } = context;
    const found = await validateImage(source, { platforms, signal, emit });
    const errors = found.findings.filter((finding) => finding.severity === 'error');
    await context.result({
      data: { ...found, isValid: errors.length === 0 },
      text: () =>
        (found.findings.length === 0
          ? ''
          : table(
              ['SEVERITY', 'PART', 'DIGEST', 'CODE', 'WHAT'],
              found.findings.map((f) => [f.severity, f.what, shortDigest(f.digest), f.code, f.message]),
            )) +
        `${found.source}@${found.digest}: ${errors.length === 0 ? 'valid' : counted(errors.length, 'error')}, ${counted(found.manifests, 'manifest')}, ${formatBytes(found.sizeBytes)} read\n`,
    });
    return errors.length === 0 ? 0 : 21;
  },
};
