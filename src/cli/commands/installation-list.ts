import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import { installationJson, installationTable, type ShownInstallation } from '../render/installation.ts';
import type { Command, Flags } from '../types.ts';
import { namespaceFlag, pairs } from './common.ts';
import { shownInstallation } from './records.ts';

export const command: Command = {
  path: 'installation list',
  summary: 'list installations',
  arguments: [],
  flags: [
    { ...namespaceFlag, summary: 'only this namespace; without it the configured one, else the global one' },
    { name: 'all-namespaces', type: 'switch', summary: 'of all namespaces' },
    { name: 'label', short: 'l', type: 'list', value: 'KEY=VALUE', summary: 'only with this label' },
    { name: 'name', type: 'string', value: 'TEXT', summary: 'only names that contain this' },
    {
      name: 'field-selector',
      type: 'string',
      value: 'FIELD=VALUE,…',
      summary: 'only where these fields have these values, e.g. bundle.version=1.2.0,status.action=install',
    },
    { name: 'skip', type: 'integer', value: 'N', summary: 'leave out the first N' },
    { name: 'limit', type: 'integer', value: 'N', summary: 'at most N' },
  ],
  examples: [
    { line: 'skycap installation list -n dev', does: 'those of one namespace' },
    { line: 'skycap list -l env=prod -o json', does: 'those with a label, for a program' },
  ],
  async run({ flags }, context) {
    const name = flags.string('namespace');
    await using rooms = compose(context, name === undefined ? {} : { namespace: name });
    const isAll = flags.switch('all-namespaces');
    const state = await rooms.state();
    const limit = flags.integer('limit');
    const skip = flags.integer('skip');
    const filter = {
      ...(isAll ? {} : { namespace: await rooms.namespace() }),
      ...(flags.list('label').length === 0 ? {} : { labels: pairs(flags.list('label'), '--label') }),
    };
    const matches = selector(flags);
    const all = await state.listInstallations(filter);
    const found = (await Promise.all(all.map((one) => shownInstallation(state, one)))).filter(matches);
    const first = skip ?? 0;
    const shown = found.slice(first, limit === undefined ? undefined : first + limit);
    await context.result({
      data: shown.map((installation) => installationJson(installation)),
      text: () => installationTable(shown, context.host.now()),
    });
    return 0;
  },
};

/** `--name` is "contains" and `--field-selector` compares by path, both as Porter has them. */
function selector(flags: Flags): (installation: ShownInstallation) => boolean {
  const part = flags.string('name');
  const wanted = (flags.string('field-selector') ?? '').split(',').filter((term) => term !== '');
  const terms = wanted.map((term) => {
    const [path = '', value] = term.split('=', 2);
    if (value === undefined || path === '') {
      throw usage(`--field-selector ${JSON.stringify(term)} has no =`, 'write --field-selector FIELD=VALUE');
    }
    return { path: path.split('.'), value };
  });
  return (installation) => {
    const json = installationJson(installation);
    return (
      (part === undefined || installation.name.includes(part)) &&
      terms.every(({ path, value }) => String(path.reduce<unknown>(step, json) ?? '') === value)
    );
  };
}

function step(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}
