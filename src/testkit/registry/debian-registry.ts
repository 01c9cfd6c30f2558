import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { TEST_CA } from './certificates.ts';

export type RegistryAuth =
  | { readonly kind: 'open' }
  | { readonly kind: 'htpasswd'; readonly users: Readonly<Record<string, string>> }
  | { readonly kind: 'token'; readonly realm: string; readonly issuer: string };

export interface RunningRegistry extends AsyncDisposable {
  readonly host: string;
}

/** Starts Debian's docker-registry in a folder of its own; deletion is on. With paths of a certificate it speaks https. */
export async function debianRegistry(
  auth: RegistryAuth,
  tls?: { readonly certificate: string; readonly key: string },
): Promise<RunningRegistry> {
  const directory = await mkdtemp(join(tmpdir(), 'docker-registry-'));
  const config = {
    version: '0.1',
    log: { level: 'info', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(directory, 'data') }, delete: { enabled: true } },
    // It takes a free port and says which.
    http: { addr: '127.0.0.1:0', ...(tls === undefined ? {} : { tls }) },
    ...(await authConfig(auth, directory)),
  };
  // JSON is YAML.
  await writeFile(join(directory, 'config.yml'), JSON.stringify(config));
  const log = await open(join(directory, 'log'), 'w');
  const child = spawn('docker-registry', ['serve', join(directory, 'config.yml')], {
    stdio: ['ignore', 'ignore', log.fd],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await ended;
    await rm(directory, { recursive: true, force: true });
  };
  await log.close();
  try {
    return { host: await listening(child, join(directory, 'log')), [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Where it listens, as its log tells: a file, for a test that waits for another program reads no pipe. */
async function listening(child: ChildProcess, log: string): Promise<string> {
  let failure: unknown;
  child.once('error', (error) => {
    failure = error;
  });
  for (;;) {
    const hasEnded = failure !== undefined || child.exitCode !== null || child.signalCode !== null;
    const said = await readFile(log, 'utf8');
    const [, host] = /msg="listening on (127\.0\.0\.1:\d+)(?:, tls)?"/.exec(said) ?? [];
    if (host !== undefined) return host;
    if (hasEnded) throw new Error(`docker-registry did not start: ${said}`, { cause: failure });
    await delay(20);
  }
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
