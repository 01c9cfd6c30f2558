import { compose } from '../compose.ts';
import { counted, formatBytes } from '../render/units.ts';
import type { Command } from '../types.ts';

const day = 86_400_000;

export const command: Command = {
  path: 'image prune',
  summary: 'remove what no image of the store needs',
  description: 'Blobs and unpacked layers that no name, running pull, kept container or resumable run needs.',
  arguments: [],
  flags: [
    {
      name: 'older-than',
      type: 'duration',
      value: 'DURATION',
      default: '1d',
      summary: 'only what has been unused for longer than this',
    },
  ],
  examples: [{ line: 'skycap image prune --older-than 7d', does: 'unused for a week' }],
  async run({ flags }, context) {
    await using rooms = compose(context);
    const olderThanMs = flags.duration('older-than') ?? day;
    const pruned = await (await rooms.store()).prune({ olderThanMs, keep: [] });
    // Who has just removed an image expects it to go, and would wonder.
    const stayed =
      flags.given('older-than') || pruned.blobs + pruned.layers > 0
        ? ''
        : '; what was used within a day stays, see --older-than';
    await context.result({
      data: pruned,
      text: () =>
        `removed ${counted(pruned.blobs, 'blob')} and ${counted(pruned.layers, 'layer')}, ${formatBytes(pruned.freedBytes)} freed${stayed}\n`,
    });
    return 0;
  },
};
