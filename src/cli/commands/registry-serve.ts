import type { Event } from '../../kernel/index.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'registry serve',
  summary: 'serve the store as a registry',
  description:
    'On loopback, until it is stopped; docker, skopeo and others can pull from it. The first line on stdout is its address. What is kept as `localhost/NAME` is offered as NAME, `docker.io/library/NAME` too, everything else under its whole name.',
  arguments: [],
  flags: [
    {
      name: 'port',
      type: 'integer',
      value: 'PORT',
      default: '5000',
      summary: 'the port; 0 takes a free one',
    },
    {
      name: 'address',
      type: 'string',
      value: 'ADDRESS',
      default: '127.0.0.1',
      summary: 'a loopback address',
    },
    { name: 'writable', type: 'switch', own: true, summary: 'accept pushes and deletions too' },
  ],
  examples: [{ line: 'skycap registry serve --port 0 -o json', does: 'on a free port, its address as JSON' }],
  async run({ flags }, context) {
    const port = flags.integer('port') ?? 5000;
    if (port > 65_535) {
      throw usage(`--port ${port} is no port`, 'use 0 to 65535');
    }
    const address = flags.string('address');
    const writable = flags.switch('writable');
    await using rooms = compose(context);
    const { serveRegistry } = await (await import('../../oci/registry/index.ts')).loadRegistryServer();
    await using server = await serveRegistry({
      store: await rooms.store(),
      port,
      ...(address === undefined ? {} : { address }),
      writable,
      onRequest: ({ method, path, status }) =>
        context.emit({ type: 'registry.request', method, path, status } as Event),
    });
    await context.result({
      data: { address: server.host, writable },
      text: () => `${server.host}\n`,
    });
    await new Promise<void>((resolve) => {
      const stopping = AbortSignal.any([context.signal, context.host.stdout.broken]);
      stopping.addEventListener('abort', () => resolve(), { once: true });
      if (stopping.aborted) {
        resolve();
      }
    });
    return 0;
  },
};
