import { actionFlags, installationArguments, labelFlag, resumeFlags } from '../action/flags.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'install',
  summary: 'install a bundle',
  description:
    'Runs the install steps, each in its own image, and records what they did. The installation is named like the bundle unless a name is given.',
  arguments: installationArguments,
  flags: [
    ...actionFlags,
    labelFlag,
    ...resumeFlags,
    { name: 'force', type: 'switch', own: true, summary: 'install over an installation that is there' },
  ],
  examples: [
    { line: 'skycap install', does: 'the bundle of this folder' },
    {
      line: 'skycap install my-app --param region=eu --credential token=env:TOKEN',
      does: 'with a name, a parameter and a credential',
    },
    { line: 'skycap install my-app --dry-run', does: 'see what would run' },
    { line: 'skycap install my-app --resume', does: 'go on where the last install failed' },
  ],
  async run(invocation, context) {
    const { performAction } = await import('../action/perform.ts');
    return await performAction('install', invocation, context);
  },
};
