import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { join } from 'node:path';

/** What the daemon is made to say. `METHOD` and a path without its version. */
export interface DaemonLie {
  readonly method: string;
  readonly path: RegExp;
  readonly status: number;
  readonly body: string;
}

export interface DockerProxy extends AsyncDisposable {
  /** For DOCKER_HOST. */
  readonly host: string;
}

/** The Docker daemon of this host behind a socket of its own, with some answers replaced. */
export async function dockerProxy(folder: string, lies: readonly DaemonLie[]): Promise<DockerProxy> {
  const path = join(folder, 'docker.sock');
  const server = createServer((asked, answer) => {
    const url = asked.url ?? '';
    const bare = url.replace(/^\/v[\d.]+/, '').replace(/\?.*$/, '');
    const lie = lies.find((one) => one.method === asked.method && one.path.test(bare));
    if (lie !== undefined) {
      asked.resume();
      asked.on('end', () => {
        answer.writeHead(lie.status, { 'content-type': 'application/json' });
        answer.end(lie.body);
      });
      return;
    }
    const real = request(
      { socketPath: '/var/run/docker.sock', method: asked.method, path: url, headers: asked.headers },
      (found) => {
        answer.writeHead(found.statusCode ?? 502, found.headers);
        found.pipe(answer);
      },
    );
    real.on('error', () => answer.destroy());
    asked.pipe(real);
  });
  server.listen(path);
  await once(server, 'listening');
  return {
    host: `unix://${path}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
