import { loadInstallation } from '../../installation/index.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import { runJson, runTable } from '../render/run.ts';
import { counted } from '../render/units.ts';
import type { Command } from '../types.ts';
import { namespaceFlag } from './common.ts';
import { findInstallation } from './records.ts';

export const command: Command = {
  path: 'run prune',
  summary: 'remove old runs with their logs',
  description: 'Runs that go on, the last run of each installation and the last value of each output stay.',
  arguments: [],
  flags: [
    namespaceFlag,
    { name: 'all-namespaces', type: 'switch', summary: 'of all namespaces' },
    {
      name: 'installation',
      short: 'i',
      type: 'string',
      value: 'NAME',
      summary: 'only those of this installation',
    },
    {
      name: 'older-than',
      type: 'duration',
      value: 'DURATION',
      summary: 'those that ended longer ago than this, e.g. 30d',
    },
    {
      name: 'keep',
      own: true,
      type: 'integer',
      value: 'N',
      summary: 'all but the last N of each installation',
    },
    { name: 'dry-run', type: 'switch', summary: 'only list what would be removed' },
  ],
  examples: [
    { line: 'skycap run prune --older-than 30d --keep 10', does: 'older than a month, beyond the last ten' },
  ],
  async run({ flags }, context) {
    const wanted = flags.string('namespace');
    const olderThanMs = flags.duration('older-than');
    const keep = flags.integer('keep');
    if (olderThanMs === undefined && keep === undefined) {
      throw usage('run prune needs to know which runs', 'add --older-than 30d, --keep 10 or both');
    }
    await using rooms = compose(context, wanted === undefined ? {} : { namespace: wanted });
    const state = await rooms.state();
    const namespace = await rooms.namespace();
    const name = flags.string('installation');
    const isAll = flags.switch('all-namespaces');
    const filter =
      name !== undefined
        ? { installationId: (await findInstallation(state, { namespace, name })).id }
        : isAll
          ? {}
          : { namespace };
    const isDry = flags.switch('dry-run');
    const { settings } = await rooms.settings();
    const { pruneRuns } = await loadInstallation();
    const doomed = await pruneRuns(
      {
        state,
        engine: () => rooms.engine(),
        emit: context.emit,
        signal: context.signal,
        now: () => new Date(context.host.now()),
        directory: settings.state.directory,
      },
      {
        filter,
        ...(olderThanMs === undefined ? {} : { olderThanMs }),
        ...(keep === undefined ? {} : { keep }),
        dryRun: isDry,
      },
    );
    await context.result({
      data: { removed: isDry ? [] : doomed.map(runJson), wouldRemove: isDry ? doomed.map(runJson) : [] },
      text: () =>
        `${isDry ? 'would remove' : 'removed'} ${counted(doomed.length, 'run')}\n${doomed.length === 0 ? '' : runTable(doomed, context.host.now())}`,
    });
    return 0;
  },
};
