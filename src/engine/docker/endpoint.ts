import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { dockerError } from './errors.ts';

export const DEFAULT_SOCKET = '/var/run/docker.sock';

export interface DockerEndpointInput {
  /** `settings.dockerHost`, which has DOCKER_HOST in it. */
  readonly host?: string;
  /** Value of DOCKER_CONTEXT. */
  readonly context?: string;
  /** Folder of the client's configuration: DOCKER_CONFIG, else `~/.docker`. Undefined: not looked at. */
  readonly configDirectory?: string;
}

export interface DockerEndpoint {
  readonly socketPath: string;
  /** What named it, for messages and `doctor`. */
  readonly from: string;
}

/**
 * The daemon that the docker client would talk to: DOCKER_HOST, then the context (docker CLI, "docker context",
 * "The docker CLI uses …"), then the usual socket.
 *
 * @throws ENGINE_DOCKER_ADDRESS for anything but a unix socket
 */
export async function dockerEndpoint(input: DockerEndpointInput = {}): Promise<DockerEndpoint> {
  if (input.host !== undefined && input.host !== '') return fromHost(input.host, 'DOCKER_HOST');
  const directory = input.configDirectory;
  const context = input.context ?? (directory === undefined ? undefined : await currentContext(directory));
  if (context === undefined || context === '' || context === 'default' || directory === undefined) {
    return { socketPath: DEFAULT_SOCKET, from: 'default' };
  }
  // The client names a context's folder by the digest of the context's name.
  const id = createHash('sha256').update(context).digest('hex');
  const meta = await json(join(directory, 'contexts', 'meta', id, 'meta.json'));
  const host = property(property(property(meta, 'Endpoints'), 'docker'), 'Host');
  if (typeof host !== 'string') {
    throw dockerError(
      'ENGINE_DOCKER_ADDRESS',
      `the Docker context ${JSON.stringify(context)} does not exist`,
      {
        hint: 'run: docker context use default',
      },
    );
  }
  return fromHost(host, `context ${context}`);
}

function fromHost(host: string, from: string): DockerEndpoint {
  if (host.startsWith('unix://')) return { socketPath: host.slice('unix://'.length), from };
  if (host.startsWith('/')) return { socketPath: host, from };
  throw dockerError(
    'ENGINE_DOCKER_ADDRESS',
    `${from}: only unix sockets are supported, not ${JSON.stringify(host)}`,
    {
      hint: 'set DOCKER_HOST=unix:///var/run/docker.sock, or choose another engine with --engine',
    },
  );
}

async function currentContext(directory: string): Promise<string | undefined> {
  const name = property(await json(join(directory, 'config.json')), 'currentContext');
  return typeof name === 'string' ? name : undefined;
}

async function json(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as unknown;
  } catch {
    return undefined;
  }
}

function property(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}
