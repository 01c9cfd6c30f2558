import { execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TEST_CA } from './certificates.ts';

export type RegistryAuth =
  | { readonly kind: 'open' }
  | { readonly kind: 'htpasswd'; readonly users: Readonly<Record<string, string>> }
  | { readonly kind: 'token'; readonly realm: string; readonly issuer: string };

export interface RunningRegistry extends AsyncDisposable {
  readonly host: string;
}

/** Starts Debian's docker-registry in a folder of its own; deletion is on. */
export async function debianRegistry(auth: RegistryAuth): Promise<RunningRegistry> {
  const directory = await mkdtemp(join(tmpdir(), 'docker-registry-'));
  const host = `127.0.0.1:${await freePort()}`;
  const config = {
    version: '0.1',
    log: { level: 'error', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(directory, 'data') }, delete: { enabled: true } },
    http: { addr: host },
    ...(await authConfig(auth, directory)),
  };
  // JSON is YAML.
  await writeFile(join(directory, 'config.yml'), JSON.stringify(config));
  const child = spawn('docker-registry', ['serve', join(directory, 'config.yml')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (part) => {
    said += String(part);
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await ended;
    await rm(directory, { recursive: true, force: true });
  };
  for (let tries = 0; !(await answers(host)); tries += 1) {
    if (child.exitCode === null && tries < 200) continue;
    await stop();
    throw new Error(`docker-registry did not start: ${said}`);
  }
  return { host, [Symbol.asyncDispose]: stop };
}

async function answers(host: string): Promise<boolean> {
  try {
    await fetch(`http://${host}/v2/`);
    return true;
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function authConfig(auth: RegistryAuth, directory: string): Promise<object> {
  if (auth.kind === 'open') return {};
  if (auth.kind === 'htpasswd') {
    const path = join(directory, 'htpasswd');
    const lines = Object.entries(auth.users).map(([name, password]) =>
      execFileSync('htpasswd', ['-nbB', name, password], { encoding: 'utf8' }),
    );
    await writeFile(path, lines.join(''));
    return { auth: { htpasswd: { realm: 'test', path } } };
  }
  const rootcertbundle = join(directory, 'ca.pem');
  await writeFile(rootcertbundle, TEST_CA);
  return {
    auth: { token: { realm: auth.realm, service: 'test-registry', issuer: auth.issuer, rootcertbundle } },
  };
}
