import { outputFlag } from '../parse/globals.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'schema',
  summary: 'print the JSON Schema of porter.yaml',
  description: 'For editors: they complete keys and mark what is wrong while you write.',
  arguments: [],
  flags: [
    { ...outputFlag, default: 'json', own: true, summary: 'format of the schema on stdout; text is JSON' },
  ],
  examples: [
    {
      line: 'skycap schema > porter.schema.json',
      does: 'name it in the first line: # yaml-language-server: $schema=porter.schema.json',
    },
  ],
  async run(_invocation, context) {
    const { loadBundle } = await import('../../bundle/index.ts');
    const { bundleSchema } = await loadBundle();
    const data = bundleSchema();
    await context.result({ data, text: () => `${JSON.stringify(data, null, 2)}\n` });
    return 0;
  },
};
