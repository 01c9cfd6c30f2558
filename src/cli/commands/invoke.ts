import { actionFlags, installationArguments, resumeFlags } from '../action/flags.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'invoke',
  summary: 'run a custom action of an installation',
  arguments: installationArguments,
  flags: [
    ...actionFlags,
    ...resumeFlags,
    { name: 'action', type: 'string', value: 'ACTION', summary: 'the action; required' },
    {
      name: 'force',
      type: 'switch',
      own: true,
      summary: 'run the action although there is no such installation',
    },
  ],
  examples: [{ line: 'skycap invoke my-app --action backup', does: 'run the steps of backup' }],
  async run(invocation, context) {
    const action = invocation.flags.string('action');
    if (action === undefined) {
      throw usage('invoke needs to know which action', 'add --action ACTION; skycap explain lists them');
    }
    if (['install', 'upgrade', 'uninstall'].includes(action)) {
      throw usage(`${action} is no custom action`, `run skycap ${action}`);
    }
    const { performAction } = await import('../action/perform.ts');
    return await performAction(action, invocation, context);
  },
};
