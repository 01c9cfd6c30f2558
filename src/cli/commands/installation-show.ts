import { compose } from '../compose.ts';
import { installationJson, installationText } from '../render/installation.ts';
import type { Command } from '../types.ts';
import { installationArgument, installationName, namespaceFlag } from './common.ts';
import { findInstallation } from './records.ts';

export const command: Command = {
  path: 'installation show',
  summary: 'show an installation, and what failed last',
  description: 'Sensitive values are hidden in every format; `skycap output show` prints a single one.',
  arguments: [installationArgument],
  flags: [namespaceFlag],
  examples: [{ line: 'skycap installation show my-app', does: 'its state, parameters and last run' }],
  async run({ flags, arguments: [given] }, context) {
    const namespace = flags.string('namespace');
    await using rooms = compose(context, namespace === undefined ? {} : { namespace });
    const state = await rooms.state();
    const name = await installationName(given, context);
    const installation = await findInstallation(state, { namespace: await rooms.namespace(), name });
    const { runId } = installation.status;
    const lastRun = runId === undefined ? undefined : await state.getRun(runId);
    await context.result({
      data: installationJson(installation, lastRun),
      text: (style) => installationText(installation, lastRun, style),
    });
    return 0;
  },
};
