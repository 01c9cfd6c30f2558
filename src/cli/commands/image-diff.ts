import { escapeLine } from '../../kernel/index.ts';
import type { FileChange, FileTree } from '../../oci/image/index.ts';
import { compose } from '../compose.ts';
import { formatBytes } from '../render/units.ts';
import type { Command } from '../types.ts';
import { platformFlag, platformOf } from './image-common.ts';
import { anyImageArgument, openImage, transportsText } from './image-ends.ts';

export const command: Command = {
  path: 'image diff',
  summary: 'show the files in which two images differ',
  description: `A is added, D is deleted, C is changed with what of it: type, content, target, device, mode, owner, xattrs, links, and with \`--times\` time. ${transportsText}`,
  arguments: [
    { ...anyImageArgument, name: 'BEFORE' },
    { ...anyImageArgument, name: 'AFTER' },
  ],
  flags: [platformFlag, { name: 'times', own: true, type: 'switch', summary: 'tell of other times too' }],
  examples: [
    { line: 'skycap image diff ghcr.io/acme/tools:1.8 ghcr.io/acme/tools:1.9', does: 'of two versions' },
  ],
  async run({ flags, arguments: words }, context) {
    const platform = platformOf(flags);
    const times = flags.switch('times');
    await using rooms = compose(context);
    const { readSourceImage, readSourceTree } = await (await import('../../oci/index.ts')).loadCopy();
    const { diffTrees } = await (await import('../../oci/index.ts')).loadImages();
    const { signal, emit } = context;
    const trees: FileTree[] = [];
    for (const word of words) {
      const source = await openImage(word, context, rooms);
      const { value } = await readSourceImage(source, platform, { signal, emit });
      trees.push(await readSourceTree(source, value, { signal, emit, hash: true }));
    }
    const [before, after] = trees as [FileTree, FileTree];
    const changes = diffTrees(before, after, { times });
    await context.result({
      data: { changes },
      text: () => (changes.length === 0 ? 'no differences\n' : changes.map(line).join('')),
    });
    return 0;
  },
};

function line(change: FileChange): string {
  const letter = { added: 'A', removed: 'D', changed: 'C' }[change.kind];
  const sizes = [change.before, change.after].filter((size) => size !== undefined).map(formatBytes);
  const words = [...(change.aspects.length === 0 ? [] : [change.aspects.join(', ')]), sizes.join(' to ')];
  const rest = words.filter((word) => word !== '').join('; ');
  return `${letter} ${escapeLine(change.path)}${rest === '' ? '' : `  (${rest})`}\n`;
}
