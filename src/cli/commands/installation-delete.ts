import { actionDeps } from '../action/deps.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import { stateOf } from '../render/installation.ts';
import type { Command } from '../types.ts';
import { installationArgument, installationName, namespaceFlag } from './common.ts';
import { findInstallation } from './records.ts';

export const command: Command = {
  path: 'installation delete',
  summary: 'remove the records of an installation',
  description:
    'Removes the installation with its runs, logs, outputs, volumes, kept workspaces and saved state. Nothing that the bundle made is undone: an installation that was not uninstalled is refused without `--force`.',
  arguments: [installationArgument],
  flags: [
    namespaceFlag,
    {
      name: 'force',
      type: 'switch',
      own: true,
      summary: 'also if it was never uninstalled; what it made stays behind',
    },
  ],
  examples: [
    { line: 'skycap uninstall my-app && skycap installation delete my-app', does: 'after uninstalling' },
  ],
  async run({ flags, arguments: [given] }, context) {
    const namespace = flags.string('namespace');
    const force = flags.switch('force');
    await using rooms = compose(context, namespace === undefined ? {} : { namespace });
    const state = await rooms.state();
    const key = { namespace: await rooms.namespace(), name: await installationName(given, context) };
    const installation = await findInstallation(state, key);
    const where = key.namespace === '' ? '' : ` in namespace ${key.namespace}`;
    if (stateOf(installation) === 'installed' && !force) {
      throw usage(
        `installation ${key.name}${where} is still installed`,
        `run skycap uninstall ${key.name} first, or add --force and leave behind what it made`,
      );
    }
    const { deleteInstallation } = await (await import('../../installation/index.ts')).loadInstallation();
    await deleteInstallation(key, await actionDeps(rooms, context), { force });
    await context.result({
      data: { deleted: { namespace: key.namespace, name: key.name, id: installation.id } },
      text: () => `deleted installation ${key.name}${where}\n`,
    });
    return 0;
  },
};
