import { compose } from '../compose.ts';
import { table } from '../render/table.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'image fsck',
  summary: 'check the store, and mend it',
  description:
    'Reads every blob and layer and compares it with its digest. Exit code 24 if something is wrong that was not mended.',
  arguments: [],
  flags: [
    {
      name: 'repair',
      type: 'switch',
      summary: 'remove what is wrong, so that it is brought again when needed',
    },
  ],
  examples: [{ line: 'skycap image fsck --repair', does: 'check and mend' }],
  async run({ flags }, context) {
    await using rooms = compose(context);
    const { signal, emit } = context;
    const findings = await (await rooms.store()).fsck({ repair: flags.switch('repair'), signal, emit });
    await context.result({
      data: { findings },
      text: () =>
        findings.length === 0
          ? 'the store is whole\n'
          : table(
              ['KIND', 'SUBJECT', 'WHAT', 'MENDED'],
              findings.map((f) => [f.kind, f.subject, f.message, f.repaired ? 'yes' : 'no']),
            ),
    });
    return findings.some((finding) => !finding.repaired) ? 24 : 0;
  },
};
