import { actionFlags, installationArguments, labelFlag, resumeFlags } from '../action/flags.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'upgrade',
  summary: 'upgrade an installation',
  description:
    'Runs the upgrade steps with the outputs and the state of earlier runs. Parameters that are not given keep their last value; credentials are never kept, so name their sources again, or in the configuration.',
  arguments: installationArguments,
  flags: [
    ...actionFlags,
    labelFlag,
    ...resumeFlags,
    {
      name: 'force-upgrade',
      type: 'switch',
      own: true,
      summary: 'upgrade although the installation is not installed',
    },
  ],
  examples: [{ line: 'skycap upgrade my-app --param replicas=3', does: 'with one parameter changed' }],
  async run(invocation, context) {
    const { performAction } = await import('../action/perform.ts');
    return await performAction('upgrade', invocation, context);
  },
};
