import type { Command } from '../types.ts';
import { version } from '../version.ts';

export const command: Command = {
  path: 'version',
  summary: 'print the version',
  arguments: [],
  flags: [
    { name: 'system', short: 's', type: 'switch', summary: 'print what it runs on, for a report of a fault' },
  ],
  examples: [{ line: 'skycap version --system', does: 'version, Node, platform and configuration folder' }],
  async run({ flags }, context) {
    if (!flags.switch('system')) {
      await context.result({ data: { version }, text: () => `skycap ${version}\n` });
      return 0;
    }
    const { systemReport } = await import('../system-report.ts');
    await context.result(systemReport(context.host));
    return 0;
  },
};
