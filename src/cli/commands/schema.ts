import type { Command } from '../types.ts';

export const command: Command = {
  path: 'schema',
  summary: 'print the JSON Schema of porter.yaml',
  description: 'For editors: they complete keys and mark what is wrong while you write.',
  raw: true,
  arguments: [],
  flags: [],
  examples: [
    {
      line: 'skycap schema > porter.schema.json',
      does: 'name it in the first line: # yaml-language-server: $schema=porter.schema.json',
    },
  ],
  async run(_invocation, context) {
    const { loadBundle } = await import('../../bundle/index.ts');
    const { bundleSchema } = await loadBundle();
    context.bytes(`${JSON.stringify(bundleSchema(), null, 2)}\n`);
    return 0;
  },
};
