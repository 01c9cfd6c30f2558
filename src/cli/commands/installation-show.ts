import { compose } from '../compose.ts';
import { installationJson, installationText } from '../render/installation.ts';
import type { Command } from '../types.ts';
import { installationArgument, installationName, namespaceFlag } from './common.ts';
import { findInstallation, shownInstallation, shownRun } from './records.ts';

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
    const key = { namespace: await rooms.namespace(), name };
    const installation = await shownInstallation(state, await findInstallation(state, key));
    const { runId } = installation.status;
    const found = runId === undefined ? undefined : await state.getRun(runId);
    const lastRun = found === undefined ? undefined : await shownRun(state, found);
    await context.result({
      data: installationJson(installation, lastRun),
      text: (style) => installationText(installation, lastRun, style),
    });
    return 0;
  },
};
