import { kernelError } from '../../kernel/index.ts';
import type { Command } from '../types.ts';
import { bundleFile, fileFlag } from './common.ts';

export const command: Command = {
  path: 'explain',
  summary: 'show what a bundle takes, gives and does',
  arguments: [],
  flags: [
    fileFlag,
    { name: 'action', type: 'string', value: 'ACTION', summary: 'only what this action uses' },
  ],
  examples: [
    { line: 'skycap explain', does: 'parameters, credentials, outputs, actions and images' },
    { line: 'skycap explain --action uninstall -o json', does: 'what one action uses, for a program' },
  ],
  async run({ flags }, context) {
    const { readBundleText, shownName } = await import('../lint/check.ts');
    const { explainJson, explainText } = await import('../render/explain.ts');
    const { loadBundle } = await import('../../bundle/index.ts');
    const file = await bundleFile(context, flags);
    const { parseBundle } = await loadBundle();
    const { bundle, problems } = parseBundle(await readBundleText(file), { file: shownName(file, context) });
    const errors = problems.filter((problem) => problem.severity === 'error');
    const [first] = errors;
    if (bundle === undefined || first !== undefined) {
      const { bundleError } = await import('../../bundle/index.ts');
      const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
      throw bundleError('BUNDLE_INVALID', `${first?.message ?? 'it is no bundle'}${more}`, {
        hint: first?.hint ?? 'run skycap lint to see every error',
        ...(first === undefined ? {} : { place: first.place }),
      });
    }
    const action = flags.string('action');
    if (
      action !== undefined &&
      !bundle.actions.has(action) &&
      !['install', 'upgrade', 'uninstall'].includes(action)
    ) {
      throw kernelError('USAGE', `the bundle has no action ${action}`, {
        hint: `it has ${[...bundle.actions.keys()].join(', ')}`,
      });
    }
    await context.result({ data: explainJson(bundle, action), text: () => explainText(bundle, action) });
    return 0;
  },
};
