import { dirname, join } from 'node:path';
import { compose } from '../compose.ts';
import { changesText } from '../render/lock.ts';
import { paint } from '../render/style.ts';
import type { Command } from '../types.ts';
import { bundleFile, fileFlag } from './common.ts';

export const command: Command = {
  path: 'lock',
  summary: 'pin the images of a bundle in porter.lock',
  description:
    'Adds what is missing; pins that are there stay unless `--update` moves them. A tag that names another image by now is a warning.',
  arguments: [{ name: 'NAME', required: false, variadic: true, summary: 'with --update: only these' }],
  flags: [
    fileFlag,
    { name: 'update', type: 'switch', summary: 'move all pins, or those named, to what their tags name now' },
    { name: 'check', type: 'switch', summary: 'write nothing; exit code 16 if porter.lock would change' },
  ],
  examples: [
    { line: 'skycap lock', does: 'pin what is not pinned' },
    { line: 'skycap lock --update terraform-tools', does: 'move one pin' },
  ],
  async run({ flags, arguments: names }, context) {
    const update = flags.switch('update');
    const check = flags.switch('check');
    if (names.length > 0 && !update) {
      const { usage } = await import('../errors.ts');
      throw usage(
        `lock does not know what to do with ${names.join(', ')}`,
        `to move pins: skycap lock --update ${names.join(' ')}`,
      );
    }
    const file = await bundleFile(context, flags);
    const directory = dirname(file);
    await using rooms = compose(context);
    const { lockBundle } = await (await import('../../installation/index.ts')).loadInstallation();
    const source = { file, directory, lockFile: join(directory, 'porter.lock') };
    const moves = update ? (names.length === 0 ? ('all' as const) : names) : [];
    const { changes, moved } = await lockBundle(
      source,
      { images: await rooms.images(), signal: context.signal },
      { update: moves, check },
    );
    await context.result({
      data: { file: source.lockFile, written: !check && changes.length > 0, changes, moved },
      text: (style) => {
        const warnings = moved
          .map(
            (change) =>
              `${paint(style, 'yellow', 'warning:')} the tag has moved on: ${changesText([change])}`,
          )
          .join('');
        const summary =
          changes.length === 0
            ? 'porter.lock is up to date\n'
            : check
              ? 'porter.lock would change\n'
              : 'wrote porter.lock\n';
        return changesText(changes) + warnings + summary;
      },
    });
    return check && changes.length > 0 ? 16 : 0;
  },
};
