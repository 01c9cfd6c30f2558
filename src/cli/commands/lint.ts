import { toSarif } from '../../document/index.ts';
import { outputFlag } from '../parse/globals.ts';
import { countText, problemJson, problemsText } from '../render/problems.ts';
import type { Command } from '../types.ts';
import { version } from '../version.ts';
import { bundleFile, fileFlag } from './common.ts';

export const command: Command = {
  path: 'lint',
  summary: 'check a bundle',
  description:
    'Reports everything that is wrong in one go, each with its place. Asks no registry. Exit code 10 if there are errors; warnings and notes do not count.',
  arguments: [],
  flags: [
    fileFlag,
    {
      ...outputFlag,
      choices: ['text', 'json', 'yaml', 'sarif', 'plaintext'],
      summary: 'format of the result on stdout; sarif is for code scanning',
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
    const checked = flags.switch('fix')
      ? await fixSource(source, { file, name })
      : { ...(await checkSource(source, { file, name })), fixed: 0 };
    if (checked.source !== source) {
      await replaceFile(file, checked.source);
    }
    const { problems, fixed } = checked;
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
