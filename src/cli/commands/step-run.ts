import { actionFlags } from '../action/flags.ts';
import type { Command } from '../types.ts';
import { installationFlag } from './common.ts';

export const command: Command = {
  path: 'step run',
  summary: 'run one step of an installation alone',
  description:
    'With the parameters, outputs and state of the installation, as if its action had come to this step. Steps without an id are named like `install[2]`.',
  arguments: [{ name: 'STEP', required: true, summary: 'id of the step' }],
  flags: [
    ...actionFlags,
    installationFlag,
    {
      name: 'action',
      type: 'string',
      value: 'ACTION',
      summary: 'its action, where several have a step of this id',
    },
  ],
  examples: [{ line: 'skycap step run apply -i my-app', does: 'run the step apply again' }],
  async run(invocation, context) {
    const { performStep } = await import('../action/perform.ts');
    return await performStep(invocation, context);
  },
};
