import { actionFlags, installationArguments, resumeFlags } from '../action/flags.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'uninstall',
  summary: 'uninstall an installation',
  description:
    'Runs the uninstall steps; when they succeeded, volumes and saved state go and the records stay.',
  arguments: installationArguments,
  flags: [
    ...actionFlags,
    ...resumeFlags,
    { name: 'delete', type: 'switch', own: true, summary: 'remove the records too if it succeeded' },
    {
      name: 'force-delete',
      type: 'switch',
      own: true,
      summary: 'remove the records even if it failed; what is left of it is then nowhere known',
    },
  ],
  examples: [
    { line: 'skycap uninstall my-app', does: 'and keep its records' },
    { line: 'skycap uninstall my-app --delete', does: 'and forget it' },
  ],
  async run(invocation, context) {
    const { performAction } = await import('../action/perform.ts');
    return await performAction('uninstall', invocation, context);
  },
};
