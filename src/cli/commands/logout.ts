import { compose } from '../compose.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'logout',
  summary: 'forget a login to a registry',
  arguments: [{ name: 'REGISTRY', required: true, summary: 'host of the registry' }],
  flags: [],
  examples: [{ line: 'skycap logout ghcr.io', does: 'forget it wherever it is kept' }],
  async run({ arguments: [registry] }, context) {
    await using rooms = compose(context);
    const { loadCredentials } = await import('../../oci/registry/index.ts');
    const { eraseCredential } = await loadCredentials();
    const removed = await eraseCredential(registry as string, await rooms.credentials());
    await context.result({
      data: { registry, removed },
      text: () =>
        removed.length === 0
          ? `there was no login to ${registry}\n`
          : removed.map(({ where }) => `forgot the login to ${registry} in ${where}\n`).join(''),
    });
    return 0;
  },
};
