import {
  createHttpClient,
  type HttpClient,
  type HttpResponse,
  isHttpFailure,
  type RequestBody,
} from '../../kernel/http/index.ts';
import type { ContainerInspect, DockerInfo, DockerVersion, PathStat } from './api-types.ts';
import { dockerError } from './errors.ts';

/** Everything that this engine needs is in 1.41 (Docker 20.10); a newer daemon is asked for its oldest version. */
const WANTED = '1.41';
const JSON_LIMIT = 64 * 1024 * 1024;
const PATIENT = { firstByteMs: 0, idleMs: 0 };

export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly json?: unknown;
  readonly body?: RequestBody;
  readonly signal?: AbortSignal;
  /** Other statuses than 2xx that are an answer and no failure. */
  readonly accept?: readonly number[];
  /** What is being done, for the message of a failure: "create a container". */
  readonly doing: string;
}

/** The Docker Engine API (docs.docker.com, "Docker Engine API" 1.41) on a unix socket. */
export class DockerApi implements AsyncDisposable {
  readonly socketPath: string;
  readonly #http: HttpClient;
  #version: Promise<DockerVersion> | undefined;

  constructor(socketPath: string) {
    this.socketPath = socketPath;
    this.#http = createHttpClient({
      socketPath,
      maxConnections: 64,
      deadlines: { firstByteMs: 300_000, idleMs: 300_000 },
    });
  }

  /** @throws ENGINE_DOCKER_UNREACHABLE */
  version(): Promise<DockerVersion> {
    this.#version ??= this.#askVersion().catch((error: unknown) => {
      this.#version = undefined;
      throw error;
    });
    return this.#version;
  }

  async #askVersion(): Promise<DockerVersion> {
    const answer = await this.#send('/version', { path: '/version', doing: 'ask for the version' });
    return JSON.parse(await answer.text(JSON_LIMIT)) as DockerVersion;
  }

  /** `/v1.41`, or the nearest that the daemon speaks. */
  async prefix(): Promise<string> {
    const { ApiVersion, MinAPIVersion } = await this.version();
    if (older(ApiVersion, WANTED)) return `/v${ApiVersion}`;
    return `/v${MinAPIVersion !== undefined && older(WANTED, MinAPIVersion) ? MinAPIVersion : WANTED}`;
  }

  /** @throws ENGINE_DOCKER_FAILED with the daemon's own words for a status that is not expected */
  async request(request: ApiRequest): Promise<HttpResponse> {
    const query = Object.entries(request.query ?? {}).flatMap(([key, value]) =>
      value === undefined ? [] : [`${key}=${encodeURIComponent(value)}`],
    );
    const path = `${await this.prefix()}${request.path}${query.length === 0 ? '' : `?${query.join('&')}`}`;
    const answer = await this.#send(path, request);
    if ((answer.status >= 200 && answer.status < 300) || request.accept?.includes(answer.status))
      return answer;
    throw await this.#refused(answer, request.doing);
  }

  async json<T>(request: ApiRequest): Promise<T> {
    const answer = await this.request(request);
    return JSON.parse(await answer.text(JSON_LIMIT)) as T;
  }

  async run(request: ApiRequest): Promise<number> {
    const answer = await this.request(request);
    await answer.discard();
    return answer.status;
  }

  async info(): Promise<DockerInfo> {
    return await this.json<DockerInfo>({ path: '/info', doing: 'ask for its settings' });
  }

  /** Undefined if there is no such container. */
  async inspect(name: string): Promise<ContainerInspect | undefined> {
    const answer = await this.request({
      path: `/containers/${name}/json`,
      accept: [404],
      doing: `look at container ${name}`,
    });
    const text = await answer.text(JSON_LIMIT);
    return answer.status === 404 ? undefined : (JSON.parse(text) as ContainerInspect);
  }

  /** A tar stream whose first component is the path's last; undefined where there is nothing. */
  async getArchive(
    name: string,
    path: string,
    signal?: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array> | undefined> {
    const answer = await this.request({
      path: `/containers/${name}/archive`,
      query: { path },
      accept: [404],
      doing: `read ${path} of container ${name}`,
      ...(signal === undefined ? {} : { signal }),
    });
    if (answer.status !== 404) return answer.body;
    await answer.discard();
    return undefined;
  }

  async putArchive(name: string, path: string, archive: AsyncIterable<Uint8Array>): Promise<void> {
    await this.run({
      method: 'PUT',
      path: `/containers/${name}/archive`,
      query: { path },
      body: archive,
      doing: `write files to container ${name}`,
    });
  }

  /** lstat of a path in a container; undefined where there is nothing. */
  async stat(name: string, path: string): Promise<PathStat | undefined> {
    const answer = await this.request({
      method: 'HEAD',
      path: `/containers/${name}/archive`,
      query: { path },
      accept: [404],
      doing: `look at ${path} of container ${name}`,
    });
    await answer.discard();
    const text = answer.headers['x-docker-container-path-stat'];
    if (answer.status === 404 || typeof text !== 'string') return undefined;
    return JSON.parse(Buffer.from(text, 'base64').toString('utf8')) as PathStat;
  }

  async remove(name: string): Promise<void> {
    await this.run({
      method: 'DELETE',
      path: `/containers/${name}`,
      query: { v: '1', force: '1' },
      // 409: it is being removed already.
      accept: [404, 409],
      doing: `remove container ${name}`,
    });
  }

  async removeVolume(name: string): Promise<boolean> {
    const status = await this.run({
      method: 'DELETE',
      path: `/volumes/${name}`,
      accept: [404, 409],
      doing: `remove volume ${name}`,
    });
    return status < 400;
  }

  async kill(name: string, signal: 'TERM' | 'KILL'): Promise<void> {
    await this.run({
      method: 'POST',
      path: `/containers/${name}/kill`,
      query: { signal },
      // It has just ended, or is not there.
      accept: [404, 409],
      doing: `signal container ${name}`,
    });
  }

  /** Waits until it does not run; undefined if there is no such container. */
  async wait(name: string, signal?: AbortSignal): Promise<void> {
    await this.run({
      method: 'POST',
      path: `/containers/${name}/wait`,
      query: { condition: 'not-running' },
      accept: [404],
      doing: `wait for container ${name}`,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http[Symbol.asyncDispose]();
  }

  async #send(path: string, request: ApiRequest): Promise<HttpResponse> {
    try {
      return await this.#http.request({
        method: request.method ?? 'GET',
        url: `http://docker${path}`,
        headers: {
          ...(request.json === undefined ? {} : { 'content-type': 'application/json' }),
          ...(request.method === 'PUT' ? { 'content-type': 'application/x-tar' } : {}),
        },
        ...(request.json === undefined ? {} : { body: JSON.stringify(request.json) }),
        ...(request.body === undefined ? {} : { body: request.body }),
        ...(request.signal === undefined ? {} : { signal: request.signal }),
        ...(/\/wait\?|\/images\/|\/archive\?|\/exec\//.test(path) ? { deadlines: PATIENT } : {}),
      });
    } catch (error) {
      if (!isHttpFailure(error)) throw error;
      if (error.kind !== 'connect') {
        throw dockerError(
          'ENGINE_DOCKER_FAILED',
          `the Docker daemon broke off (to ${request.doing}): ${error.message}`,
          {
            hint: 'look at the daemon’s log, then run the command again',
            cause: error,
          },
        );
      }
      const hint =
        error.code === 'EACCES'
          ? 'add yourself to the group that owns the socket, or use another engine with --engine'
          : 'start Docker (systemctl start docker), or use another engine with --engine';
      throw dockerError(
        'ENGINE_DOCKER_UNREACHABLE',
        `no Docker daemon answers on ${this.socketPath} (${error.code ?? error.message})`,
        {
          hint,
          cause: error,
        },
      );
    }
  }

  async #refused(answer: HttpResponse, doing: string): Promise<Error> {
    const message = messageOf(await answer.text(JSON_LIMIT).catch(() => ''));
    return dockerError(
      'ENGINE_DOCKER_FAILED',
      `the Docker daemon refused to ${doing}: ${message} (status ${answer.status})`,
      {
        hint: hintFor(message),
        details: { status: answer.status, daemon: message },
      },
    );
  }
}

function hintFor(message: string): string {
  if (/no space left/i.test(message))
    return 'make room where the daemon keeps its data, then run the command again';
  return 'look at the daemon’s log';
}

export function messageOf(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    if (typeof message === 'string') return message.trim();
  } catch {
    // Plain text then.
  }
  return text.trim().slice(0, 2000);
}

function older(a: string, b: string): boolean {
  const [majorA = 0, minorA = 0] = a.split('.').map(Number);
  const [majorB = 0, minorB = 0] = b.split('.').map(Number);
  return majorA < majorB || (majorA === majorB && minorA < minorB);
}
