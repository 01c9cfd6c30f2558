import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TagState } from '../../bundle/index.ts';
import { toSarif } from '../../document/index.ts';
import type { Lock } from '../../images/index.ts';
import { outputFlag } from '../parse/globals.ts';
import { countText, problemJson, problemsText } from '../render/problems.ts';
import type { Command, Context } from '../types.ts';
import { version } from '../version.ts';
import { bundleFile, fileFlag } from './common.ts';

export const command: Command = {
  path: 'lint',
  summary: 'check a bundle',
  description:
    'Reports everything that is wrong in one go, each with its place. What steps give to their images is checked with what porter.lock says of them. Asks no registry unless told by `--tags`. Exit code 10 if there are errors; warnings and notes do not count.',
  arguments: [],
  flags: [
    fileFlag,
    {
      ...outputFlag,
      choices: ['text', 'json', 'yaml', 'sarif', 'plaintext'],
      summary: 'format of the result on stdout; sarif is for code scanning',
    },
    {
      name: 'tags',
      type: 'switch',
      summary: 'ask the registries, and warn of tags that moved since they were pinned',
    },
    { name: 'fix', type: 'switch', summary: 'mend in the file what can be mended, comments and layout kept' },
  ],
  examples: [
    { line: 'skycap lint', does: 'the bundle of this folder' },
    { line: 'skycap lint --fix', does: 'and mend it' },
    { line: 'skycap lint -o sarif > lint.sarif', does: 'for code scanning' },
  ],
  async run({ flags }, context) {
    const { checkSource, fixSource, readBundleText, replaceFile, shownName } = await import(
      '../lint/check.ts'
    );
    const file = await bundleFile(context, flags);
    const name = shownName(file, context);
    const source = await readBundleText(file);
    const lockFile = join(dirname(file), 'porter.lock');
    const locked = existsSync(lockFile)
      ? await (await import('../lint/lock.ts')).readLock(lockFile, shownName(lockFile, context))
      : undefined;
    const tags =
      flags.switch('tags') && locked?.lock !== undefined
        ? await tagStates(source, { file: name, lock: locked.lock, context })
        : undefined;
    const target = {
      file,
      name,
      ...(locked?.facts === undefined ? {} : { images: locked.facts }),
      ...(tags === undefined ? {} : { tags }),
    };
    const checked = flags.switch('fix')
      ? await fixSource(source, target)
      : { ...(await checkSource(source, target)), fixed: 0 };
    if (checked.source !== source) {
      replaceFile(file, checked.source);
    }
    const { fixed } = checked;
    const problems = [...checked.problems, ...(locked?.problems ?? [])];
    const data =
      flags.string('output') === 'sarif'
        ? toSarif(problems, { version })
        : { file: name, fixed, problems: problems.map(problemJson) };
    const isSarif = flags.string('output') === 'sarif';
    const text = `${fixed === 0 ? '' : `mended ${fixed}\n`}${name}: ${countText(problems)}\n`;
    await context.result({
      data,
      text: (style) =>
        isSarif ? `${JSON.stringify(data, null, 2)}\n` : problemsText(problems, style) + text,
    });
    return problems.some((problem) => problem.severity === 'error') ? 10 : 0;
  },
};

/** Nothing of this is loaded by a lint that asks nobody. */
async function tagStates(
  source: string,
  { file, lock, context }: { readonly file: string; readonly lock: Lock; readonly context: Context },
): Promise<ReadonlyMap<string, TagState>> {
  const { loadBundle } = await import('../../bundle/index.ts');
  const { compose } = await import('../compose.ts');
  const { askTags } = await import('../lint/lock.ts');
  const { bundle } = (await loadBundle()).parseBundle(source, { file });
  if (bundle === undefined) return new Map();
  await using rooms = compose(context);
  return await askTags(bundle, lock, await rooms.images());
}
