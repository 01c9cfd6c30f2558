import { execFile, execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeImage } from '../../../testkit/images/index.ts';
import { TEST_CA, TEST_SERVER_CERT, TEST_SERVER_KEY } from '../../../testkit/registry/index.ts';
import type { Store } from '../../port.ts';
import { openStore } from '../../store/index.ts';
import type { PinnedImage } from '../../types.ts';
import { serveRegistry } from './index.ts';
import type { ServedRegistry, ServeOptions } from './types.ts';

// docker, podman, skopeo and buildah pull from the built-in registry and push to it: plain, with TLS that they trust
// by certs.d, with users.
const TOOLS = ['skopeo', 'buildah', 'podman', 'docker'] as const;
const missing = TOOLS.filter((tool) => {
  try {
    execFileSync('sh', ['-c', `command -v ${tool}`], { stdio: 'ignore' });
    return false;
  } catch {
    return true;
  }
});
const required = process.env.SKYCAP_REQUIRE_ENGINES === '1';
if (missing.length > 0 && !required)
  console.warn(`the built-in registry is NOT TESTED with ${missing.join(', ')}`);
const suite = missing.length === 0 || required ? describe : describe.skip;

const tls = { cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY };
const users = { alice: 'pass:word!' };

let directory: string;
let store: Store;
let made: PinnedImage;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'served-live-'));
  store = await openStore({ directory: join(directory, 'store') });
  made = await makeImage(store, {
    reference: 'localhost/tools/hello:1',
    files: { 'etc/motd': 'hello' },
    compression: 'gzip',
    config: { cmd: ['/hello'] },
  });
  await writeFile(join(directory, 'config.json'), '{}');
});
afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** Never blocking: the registry lives in this process. */
async function sh(script: string): Promise<string> {
  const env = { ...process.env, HOME: directory, DOCKER_CONFIG: directory, XDG_RUNTIME_DIR: directory };
  const { stdout } = await promisify(execFile)('bash', ['-euc', script], {
    cwd: directory,
    encoding: 'utf8',
    timeout: 300_000,
    env: { ...env, BUILDAH_ISOLATION: 'chroot' },
  });
  return stdout.trim();
}

/** A registry over an empty store, so that everything has to be pushed. */
async function empty(options: Partial<ServeOptions>): Promise<ServedRegistry & { readonly store: Store }> {
  const folder = await mkdtemp(join(directory, 'empty-'));
  const pushed = await openStore({ directory: folder });
  const served = await serveRegistry({ store: pushed, writable: true, ...options });
  const close = async (): Promise<void> => {
    await served.close();
    await pushed[Symbol.asyncDispose]();
  };
  return { ...served, store: pushed, close, [Symbol.asyncDispose]: close };
}

const storage = (tool: string): string =>
  `${tool} --root $PWD/${tool} --runroot $PWD/${tool}-run --storage-driver vfs`;

/** Pulls the image from one registry and pushes it to the other, forgetting it after. */
const SCRIPTS: Readonly<Record<(typeof TOOLS)[number], (from: string, to: string, flags: string) => string>> =
  {
    skopeo: (from, to, flags) =>
      `rm -rf copy; skopeo copy -q ${flags.replaceAll('--', '--src-')} docker://${from} dir:copy
       skopeo copy -q ${flags.replaceAll('--', '--dest-')} dir:copy docker://${to}`,
    buildah: (from, to, flags) =>
      `${storage('buildah')} pull -q ${flags} docker://${from} >/dev/null
       ${storage('buildah')} push -q ${flags} ${from} docker://${to}; ${storage('buildah')} rmi ${from} >/dev/null`,
    podman: (from, to, flags) =>
      `${storage('podman')} pull -q ${flags} docker://${from} >/dev/null
       ${storage('podman')} push -q ${flags} ${from} docker://${to}; ${storage('podman')} rmi ${from} >/dev/null`,
    docker: (from, to) =>
      `docker pull -q ${from}; docker tag ${from} ${to}; docker push -q ${to}; docker rmi ${from} ${to}`,
  };

async function configDigest(pushed: Store, name: string): Promise<string | undefined> {
  const descriptor = await pushed.resolve(name);
  if (descriptor === undefined) return undefined;
  const manifest = JSON.parse((await pushed.readSmall(descriptor.digest)).toString()) as {
    config: { digest: string };
  };
  return manifest.config.digest;
}

suite.each(TOOLS)('%s', (tool) => {
  const work = async (from: ServedRegistry, to: ServedRegistry, flags: string): Promise<string> =>
    await sh(SCRIPTS[tool](`${from.host}/tools/hello:1`, `${to.host}/pushed/${tool}:1`, flags));

  it('pulls and pushes', async () => {
    await using from = await serveRegistry({ store });
    await using to = await empty({});
    await work(from, to, '--tls-verify=false');
    expect(await configDigest(to.store, `localhost/pushed/${tool}:1`)).toBe(made.configDigest);
    // The first one is read-only.
    await expect(work(from, from, '--tls-verify=false')).rejects.toThrow(/405|unsupported|read-only/i);
  });

  it('pulls and pushes over TLS, trusting the authority of its certs.d, as a user', async () => {
    await using from = await serveRegistry({ store, tls, auth: { kind: 'token', users } });
    await using to = await empty({ tls, auth: { kind: 'token', users } });
    const trust = tool === 'docker' ? '/etc/docker/certs.d' : join(directory, '.config/containers/certs.d');
    const folders = [from, to].map(({ host }) => join(trust, host));
    const creds = (password: string): string => `--creds 'alice:${password}'`;
    try {
      // Docker trusts whatever answers on loopback; the others do not.
      if (tool !== 'docker')
        await expect(work(from, to, creds(users.alice))).rejects.toThrow(/x509|certificate/);
      for (const folder of folders) {
        await mkdir(folder, { recursive: true });
        await writeFile(join(folder, 'ca.crt'), TEST_CA);
      }
      await expect(work(from, to, creds('wrong'))).rejects.toThrow(/unauthorized|authentication/i);
      if (tool === 'docker')
        for (const { host } of [from, to])
          await sh(`printf %s '${users.alice}' | docker login -u alice --password-stdin ${host}`);
      await work(from, to, creds(users.alice));
      expect(await configDigest(to.store, `localhost/pushed/${tool}:1`)).toBe(made.configDigest);
    } finally {
      for (const folder of folders) await rm(folder, { recursive: true, force: true });
    }
  });
});
