import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command, Context } from '../types.ts';

export const command: Command = {
  path: 'login',
  summary: 'keep a login to a registry',
  description:
    'Asks the registry whether the login is right, then keeps it with the credential helper that is configured, else in the file that docker and podman read too.',
  arguments: [
    { name: 'REGISTRY', required: true, summary: 'host of the registry, e.g. ghcr.io or localhost:5000' },
  ],
  flags: [
    {
      name: 'username',
      short: 'u',
      type: 'string',
      value: 'NAME',
      summary: 'the user name; without it it is asked for',
    },
    { name: 'password-stdin', type: 'switch', summary: 'read the password from standard input' },
  ],
  examples: [{ line: 'skycap login ghcr.io -u acme --password-stdin < token', does: 'without a terminal' }],
  async run({ flags, arguments: [registry] }, context) {
    const name = flags.string('username') ?? (await context.ask('user name:'));
    const fromStdin = flags.switch('password-stdin');
    if (name === undefined || name === '') {
      throw usage('login needs a user name', 'add --username NAME');
    }
    const password = fromStdin ? await firstLine(context) : await context.askSecret('password:');
    if (password === undefined || password === '') {
      throw usage('login needs a password', 'give it on standard input with --password-stdin');
    }
    await using rooms = compose(context);
    const { loadCredentials, loadRegistryClient } = await import('../../oci/registry/index.ts');
    const { checkLogin } = await loadRegistryClient();
    const { storeCredential } = await loadCredentials();
    const { signal, emit } = context;
    await checkLogin(
      registry as string,
      { kind: 'basic', username: name, password },
      { client: await rooms.registryOptions(), transfer: { signal, emit } },
    );
    const kept = await storeCredential(
      registry as string,
      { username: name, secret: password },
      await rooms.credentials(),
    );
    await context.result({
      data: { registry, username: name, kept },
      text: () =>
        `logged in to ${registry} as ${name}, kept in ${kept.where}${kept.kind === 'file' ? ', readable for whoever can read that file' : ''}\n`,
    });
    return 0;
  },
};

async function firstLine(context: Context): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of context.host.stdin.bytes()) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks)
    .toString('utf8')
    .replace(/\r?\n$/, '');
}
