import { compose } from '../compose.ts';
import { cellOf } from '../render/installation.ts';
import { table } from '../render/table.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'config show',
  summary: 'show the settings and where each came from',
  description:
    'Settings come from variables, `$XDG_CONFIG_HOME/skycap/config.yaml` and `/etc/skycap/config.yaml`, the first one that says something winning; rules for registries also from registries.conf. Values of credentials are hidden. Every key is in docs/settings.md.',
  arguments: [],
  flags: [],
  examples: [{ line: 'skycap config show', does: 'what holds here' }],
  async run(_invocation, context) {
    await using rooms = compose(context);
    const { origins } = await rooms.settings();
    await context.result({
      data: origins,
      text: () =>
        table(
          ['KEY', 'VALUE', 'FROM'],
          origins.map(({ key, value, from }) => [key, cellOf(value), from]),
        ),
    });
    return 0;
  },
};
