import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Event } from '../../kernel/index.ts';
import type { ServeOptions } from '../../oci/registry/index.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command, Context, Flags } from '../types.ts';
import { readUserFile } from './input.ts';

export const command: Command = {
  path: 'registry serve',
  summary: 'serve the store as a registry',
  description:
    'On loopback, until it is stopped; docker, skopeo and others can pull from it. No certificate is made for https: one that nobody trusts teaches to switch the check off. Bring one, e.g. of an authority of your own. The first line on stdout is its address. What is kept as `localhost/NAME` is offered as NAME, `docker.io/library/NAME` too, everything else under its whole name.',
  onInterrupt: 'stopping',
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
    {
      name: 'server-name',
      type: 'list',
      value: 'NAME',
      summary: 'another name by which it may be addressed, e.g. through a proxy; loopback names always are',
    },
    { name: 'writable', type: 'switch', own: true, summary: 'accept pushes and deletions too' },
    { name: 'no-delete', type: 'switch', summary: 'with --writable: pushes only' },
    {
      name: 'sparse',
      type: 'switch',
      summary: 'with --writable: accept manifests that lead to layers or images which are not here',
    },
    { name: 'tls-cert', type: 'string', value: 'FILE', summary: 'speak https with this certificate (PEM)' },
    { name: 'tls-key', type: 'string', value: 'FILE', summary: 'its key (PEM, no passphrase)' },
    {
      name: 'auth',
      type: 'string',
      value: 'KIND',
      choices: ['basic', 'token'],
      summary: 'ask for a user and password, with each request or for a token at /token',
    },
    {
      name: 'users',
      type: 'string',
      value: 'FILE',
      summary: 'with --auth: lines of NAME:PASSWORD (no hashes), readable for you alone',
    },
    { name: 'anonymous-pull', type: 'switch', own: true, summary: 'with --auth: anyone may pull' },
  ],
  examples: [
    { line: 'skycap registry serve --port 0 -o json', does: 'on a free port, its address as JSON' },
    {
      line: 'skycap registry serve --writable --tls-cert cert.pem --tls-key key.pem --auth token --users users',
      does: 'a registry to push to, with https and users',
    },
  ],
  async run({ flags }, context) {
    const port = flags.integer('port') ?? 5000;
    if (port > 65_535) {
      throw usage(`--port ${port} is no port`, 'use 0 to 65535');
    }
    const address = flags.string('address');
    const writing = writingOf(flags);
    const options = { ...writing, ...(await tlsOf(flags, context)), ...(await authOf(flags, context)) };
    const hostNames = flags.list('server-name').map((name) => name.toLowerCase());
    await using rooms = compose(context);
    const { serveRegistry } = await (await import('../../oci/registry/index.ts')).loadRegistryServer();
    await using server = await serveRegistry({
      store: await rooms.store(),
      port,
      ...(address === undefined ? {} : { address }),
      ...options,
      hostNames,
      onRequest: ({ method, path, status }) =>
        context.emit({ type: 'registry.request', method, path, status } as Event),
    });
    await context.result({
      data: { address: server.host, url: server.url, writable: writing.writable },
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

function writingOf(flags: Flags): { writable: boolean; deletable: boolean; sparse: boolean } {
  const writable = flags.switch('writable');
  const deletable = !flags.switch('no-delete');
  const sparse = flags.switch('sparse');
  if (!writable && (sparse || !deletable)) {
    throw usage(`--${sparse ? 'sparse' : 'no-delete'} says how to write`, 'add --writable');
  }
  return { writable, deletable, sparse };
}

async function tlsOf(flags: Flags, context: Context): Promise<Pick<ServeOptions, 'tls'>> {
  const cert = flags.string('tls-cert');
  const key = flags.string('tls-key');
  if (cert === undefined && key === undefined) {
    return {};
  }
  if (cert === undefined || key === undefined) {
    throw usage('https needs a certificate and its key', 'give both, --tls-cert and --tls-key');
  }
  const read = async (path: string, what: string): Promise<string> =>
    (await readUserFile(resolve(context.host.cwd, path), what, context.signal)).toString('utf8');
  return { tls: { cert: await read(cert, 'the certificate'), key: await read(key, 'the key') } };
}

async function authOf(flags: Flags, context: Context): Promise<Pick<ServeOptions, 'auth'>> {
  const kind = flags.string('auth');
  const file = flags.string('users');
  const anonymousPull = flags.switch('anonymous-pull');
  if (kind === undefined) {
    if (file !== undefined || anonymousPull) {
      throw usage('users are asked for with --auth only', 'add --auth token or --auth basic');
    }
    return {};
  }
  if (file === undefined) {
    throw usage('--auth needs users', 'add --users FILE, with lines of NAME:PASSWORD');
  }
  const path = resolve(context.host.cwd, file);
  const text = (await readUserFile(path, 'the users', context.signal)).toString('utf8');
  if ((statSync(path).mode & 0o077) !== 0) {
    throw usage(`others can read the passwords in ${path}`, `run chmod 600 ${path}`);
  }
  return { auth: { kind: kind === 'basic' ? 'basic' : 'token', users: usersOf(text, path), anonymousPull } };
}

/** What htpasswd writes: bcrypt, crypt(3) with an algorithm of its own, Apache's MD5, SHA-1. */
const HASHED = /^(\$(2[abxy]?|apr1|1|5|6|y)\$|\{SHA\})/;

function usersOf(text: string, path: string): Readonly<Record<string, string>> {
  const lines = text.split(/\r?\n/).map((line, index) => ({ line, number: index + 1 }));
  const users = lines
    .filter(({ line }) => line !== '' && !line.startsWith('#'))
    .map(({ line, number }) => {
      const colon = line.indexOf(':');
      if (colon < 1 || colon === line.length - 1) {
        throw usage(`${path}:${number}: no NAME:PASSWORD`, 'write one user a line, # for remarks');
      }
      const password = line.slice(colon + 1);
      // The hash would be the password, and whoever reads the file could log in with it.
      if (HASHED.test(password)) {
        throw usage(
          `${path}:${number}: this is a hash, as htpasswd writes it, and hashes are not read`,
          'write the password itself; the file is readable for you alone',
        );
      }
      return [line.slice(0, colon), password] as const;
    });
  return Object.fromEntries(users);
}
