import { compose } from '../compose.ts';
import { runJson, runTable } from '../render/run.ts';
import type { Command } from '../types.ts';
import { namespaceFlag } from './common.ts';
import { findInstallation, shownRun } from './records.ts';

export const command: Command = {
  path: 'run list',
  summary: 'list runs, oldest first',
  description:
    'A run whose process is gone is `interrupted`: its steps may go on, and the next action of its installation finds out how it ended.',
  arguments: [{ name: 'INSTALLATION', required: false, summary: 'only those of this installation' }],
  flags: [
    namespaceFlag,
    {
      name: 'installation',
      short: 'i',
      type: 'string',
      value: 'NAME',
      summary: 'only those of this installation',
    },
    { name: 'limit', type: 'integer', value: 'N', summary: 'only the last N' },
  ],
  examples: [{ line: 'skycap run list my-app', does: 'what was done to one installation' }],
  async run({ flags, arguments: [given] }, context) {
    const wanted = flags.string('namespace');
    await using rooms = compose(context, wanted === undefined ? {} : { namespace: wanted });
    const state = await rooms.state();
    const namespace = await rooms.namespace();
    const name = given ?? flags.string('installation');
    flags.given('installation');
    const filter =
      name === undefined
        ? { namespace }
        : { installationId: (await findInstallation(state, { namespace, name })).id };
    const all = await state.listRuns(filter);
    const limit = flags.integer('limit');
    const wantedRuns = limit === undefined ? all : all.slice(Math.max(0, all.length - limit));
    const runs = await Promise.all(wantedRuns.map((run) => shownRun(state, run)));
    await context.result({ data: runs.map(runJson), text: () => runTable(runs, context.host.now()) });
    return 0;
  },
};
