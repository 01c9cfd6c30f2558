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
    const { logout } = await (await import('../../oci/index.ts')).loadCredentials();
    const wasThere = await logout(registry as string, await rooms.credentialOptions());
    await context.result({
      data: { registry, loggedOut: wasThere },
      text: () => (wasThere ? `logged out of ${registry}\n` : `there was no login to ${registry}\n`),
    });
    return 0;
  },
};
