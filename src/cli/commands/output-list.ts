import { compose } from '../compose.ts';
import { outputJson, outputTable } from '../render/run.ts';
import type { Command } from '../types.ts';
import { installationFlag, installationName, namespaceFlag, runFlag } from './common.ts';
import { findInstallation, findRun } from './records.ts';

export const command: Command = {
  path: 'output list',
  summary: 'list the outputs of an installation',
  description:
    'The last value of each; with `--run` the values of that run. Sensitive values are hidden in every format.',
  arguments: [{ name: 'INSTALLATION', required: false, summary: 'the installation' }],
  flags: [namespaceFlag, installationFlag, runFlag],
  examples: [{ line: 'skycap output list -i my-app', does: 'what the last runs gave' }],
  async run({ flags, arguments: [given] }, context) {
    const wanted = flags.string('namespace');
    await using rooms = compose(context, wanted === undefined ? {} : { namespace: wanted });
    const state = await rooms.state();
    const runId = flags.string('run');
    const named = given ?? flags.string('installation');
    flags.given('installation');
    const outputs =
      runId !== undefined
        ? await state.runOutputs((await findRun(state, runId)).id)
        : await state.latestOutputs(
            (
              await findInstallation(state, {
                namespace: await rooms.namespace(),
                name: await installationName(named, context),
              })
            ).id,
          );
    const sorted = [...outputs].sort((a, b) => (a.name < b.name ? -1 : 1));
    await context.result({ data: sorted.map(outputJson), text: () => outputTable(sorted) });
    return 0;
  },
};
