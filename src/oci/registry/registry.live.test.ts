import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ignoreEvents } from '../../kernel/index.ts';
import { makeImage } from '../../testkit/images/index.ts';
import {
  codeOf,
  collect,
  debianRegistry,
  type RunningRegistry,
  type ScriptedRegistry,
  tokenServer,
} from '../../testkit/registry/index.ts';
import { pullImage } from '../image/index.ts';
import { digestOf, parseReference } from '../names/index.ts';
import type { RegistryClient, Store, TransferOptions } from '../port.ts';
import { openStore } from '../store/index.ts';
import type { Descriptor } from '../types.ts';
import { type CredentialsProvider, checkLogin, createRegistryClient } from './client/index.ts';
import { createCredentialsProvider, eraseCredential, storeCredential } from './credentials/index.ts';
import { serveRegistry } from './server/index.ts';

// Debian's docker-registry open, with htpasswd and behind a token server, and its peers as clients of our own.
const TOOLS = ['docker-registry', 'htpasswd', 'skopeo', 'buildah', 'podman', 'docker'] as const;
const missing = TOOLS.filter((tool) => {
  try {
    execFileSync('sh', ['-c', `command -v ${tool}`], { stdio: 'ignore' });
    return false;
  } catch {
    return true;
  }
});
if (missing.length > 0 && process.env.SKYCAP_REQUIRE_ENGINES !== '1') {
  console.warn(`NOT TESTED against ${missing.join(', ')}: not installed`);
}
const suite = missing.length === 0 || process.env.SKYCAP_REQUIRE_ENGINES === '1' ? describe : describe.skip;

const transfer: TransferOptions = { signal: new AbortController().signal, emit: ignoreEvents };
const USER = { username: 'alice', secret: 'pass:word!' };
const alice: CredentialsProvider = async () => ({
  kind: 'basic',
  username: USER.username,
  password: USER.secret,
});
const ISSUER = 'test-issuer';

let directory: string;
let store: Store;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'registry-live-'));
  store = await openStore({ directory: join(directory, 'store') });
});
afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** Never blocking: the token server and our own registry live in this process. */
async function sh(script: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
  const { stdout } = await promisify(execFile)('bash', ['-euc', script], {
    cwd: directory,
    encoding: 'utf8',
    timeout: 300_000,
    env: { ...process.env, STORAGE_DRIVER: 'vfs', BUILDAH_ISOLATION: 'chroot', ...env },
  });
  return stdout;
}

const from = (bytes: Uint8Array) =>
  async function* (offset: number): AsyncGenerator<Uint8Array> {
    for (let at = offset; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
  };
const IMAGE = 'application/vnd.oci.image.manifest.v1+json';

/** Everything a client does, on a registry that already knows us. */
async function exercise(client: RegistryClient, host: string): Promise<void> {
  const at = parseReference(`${host}/live/app:1`);
  const layer = randomBytes(3_000_000);
  const blob: Descriptor = {
    mediaType: 'application/octet-stream',
    digest: digestOf(layer),
    size: layer.length,
  };
  const empty: Descriptor = {
    mediaType: 'application/vnd.oci.empty.v1+json',
    digest: digestOf('{}'),
    size: 2,
  };
  expect(await client.hasBlob(at, blob.digest, transfer)).toBe(false);
  expect(await client.putBlob(at, blob, from(layer), transfer)).toBe('uploaded');
  expect(await client.putBlob(at, blob, from(layer), transfer)).toBe('present');
  const mounted = await client.putBlob(parseReference(`${host}/live/other:1`), blob, from(layer), {
    ...transfer,
    mountFrom: 'live/app',
  });
  // Ours shows a blob of the store in every repository.
  expect(mounted).toMatch(/^(mounted|present)$/);
  await client.putBlob(at, empty, from(Buffer.from('{}')), transfer);
  for (const offset of [0, 1, 2_999_999, 3_000_000]) {
    expect(
      (await collect(await client.getBlob(at, blob, offset, transfer))).equals(layer.subarray(offset)),
    ).toBe(true);
  }
  const bytes = Buffer.from(
    JSON.stringify({ schemaVersion: 2, mediaType: IMAGE, config: empty, layers: [blob] }),
  );
  const descriptor = { mediaType: IMAGE, digest: digestOf(bytes), size: bytes.length };
  for (const tag of ['1', '2', '10'])
    await client.putManifest({ ...at, tag }, { descriptor, bytes }, transfer);
  expect(await client.headManifest(at, transfer)).toEqual(descriptor);
  expect((await client.getManifest(at, transfer)).descriptor).toEqual(descriptor);
  expect((await client.listTags(at, transfer)).toSorted()).toEqual(['1', '10', '2']);
  await client.deleteManifest({ ...at, digest: descriptor.digest }, transfer);
  expect(await client.headManifest(at, transfer)).toBeUndefined();
  expect(await codeOf(client.getManifest(at, transfer))).toBe('REGISTRY_NOT_FOUND');
}

suite('docker-registry', () => {
  const running: AsyncDisposable[] = [];
  afterEach(async () => {
    for (const one of running.splice(0).reverse()) await one[Symbol.asyncDispose]();
  });
  const keep = <T extends AsyncDisposable>(one: T): T => {
    running.push(one);
    return one;
  };
  const start = async (
    kind: 'open' | 'htpasswd' | 'token',
  ): Promise<{ registry: RunningRegistry; tokens?: ScriptedRegistry }> => {
    if (kind === 'open') return { registry: keep(await debianRegistry({ kind })) };
    const users = { [USER.username]: USER.secret };
    if (kind === 'htpasswd') return { registry: keep(await debianRegistry({ kind, users })) };
    const tokens = keep(
      await tokenServer({ issuer: ISSUER, users, refreshTokens: { 'refresh-me': USER.username } }),
    );
    return { registry: keep(await debianRegistry({ kind, realm: tokens.realm, issuer: ISSUER })), tokens };
  };

  it.each(['open', 'htpasswd', 'token'] as const)('%s: push, mount, pull, list, delete', async (kind) => {
    const { registry } = await start(kind);
    await using client = createRegistryClient(kind === 'open' ? {} : { credentials: alice });
    await exercise(client, registry.host);
  });

  it('takes chunks', async () => {
    const { registry } = await start('token');
    await using client = createRegistryClient({ credentials: alice, chunkSize: 1_000_000 });
    await exercise(client, registry.host);
  });

  it('token: an identity token does what a password does, nobody may pull but not push', async () => {
    const { registry, tokens } = await start('token');
    await using client = createRegistryClient({
      credentials: async () => ({ kind: 'identity-token', token: 'refresh-me' }),
    });
    await exercise(client, registry.host);
    expect(tokens?.asked.every((asked) => asked.method === 'POST')).toBe(true);
    await using nobody = createRegistryClient();
    const at = parseReference(`${registry.host}/live/other:1`);
    const blob = { mediaType: 'x', digest: digestOf('x'), size: 1 };
    expect(await nobody.hasBlob(at, blob.digest, transfer)).toBe(false);
    expect(await codeOf(nobody.putBlob(at, blob, from(Buffer.from('x')), transfer))).toBe(
      'REGISTRY_UNAUTHORIZED',
    );
  });

  it.each(['htpasswd', 'token'] as const)(
    '%s: wrong and missing credentials are told apart',
    async (kind) => {
      const { registry } = await start(kind);
      const check = (password: string): Promise<void> =>
        checkLogin(
          registry.host,
          { kind: 'basic', username: USER.username, password },
          { client: {}, transfer },
        );
      await check(USER.secret);
      expect(await codeOf(check('wrong'))).toBe('REGISTRY_UNAUTHORIZED');
      await using nobody = createRegistryClient();
      const failure = nobody.listTags(parseReference(`${registry.host}/live/none`), transfer);
      expect(await codeOf(failure)).toBe(
        kind === 'htpasswd' ? 'REGISTRY_UNAUTHORIZED' : 'REGISTRY_NOT_FOUND',
      );
    },
  );

  it.each(['htpasswd', 'token'] as const)(
    '%s: logins of docker, podman and skopeo are ours, and ours theirs',
    async (kind) => {
      const { registry } = await start(kind);
      const home = await mkdtemp(join(directory, 'home-'));
      const dockerConfig = join(home, 'docker');
      const authFile = join(home, 'auth.json');
      await mkdir(dockerConfig);
      const logins: readonly (readonly [Record<string, string>, string])[] = [
        [
          { DOCKER_CONFIG: dockerConfig },
          `printf %s '${USER.secret}' | docker login -u ${USER.username} --password-stdin ${registry.host}`,
        ],
        [
          { REGISTRY_AUTH_FILE: authFile },
          `printf %s '${USER.secret}' | podman login --tls-verify=false -u ${USER.username} --password-stdin ${registry.host}`,
        ],
      ];
      for (const [env, script] of logins) {
        await sh(script, { ...env, HOME: home });
        await using client = createRegistryClient({ credentials: createCredentialsProvider({ env, home }) });
        await exercise(client, registry.host);
        const environment = { env, home };
        expect(await eraseCredential(registry.host, { environment, signal: transfer.signal })).toHaveLength(
          1,
        );
        await storeCredential(registry.host, USER, { environment, signal: transfer.signal });
      }
      const reference = `${registry.host}/live/theirs:1`;
      await makeImage(store, { reference, files: { 'etc/motd': 'hello' } });
      await sh(`skopeo copy -q --dest-tls-verify=false oci:store:${reference} docker://${reference}`, {
        REGISTRY_AUTH_FILE: authFile,
        HOME: home,
      });
      await sh(`docker pull -q ${reference}; docker rmi -f ${reference}`, {
        DOCKER_CONFIG: dockerConfig,
        HOME: home,
      });
      await eraseCredential(registry.host, {
        environment: { env: { REGISTRY_AUTH_FILE: authFile }, home },
        signal: transfer.signal,
      });
      await expect(
        sh(`podman login --get-login ${registry.host}`, { REGISTRY_AUTH_FILE: authFile, HOME: home }),
      ).rejects.toThrow();
    },
  );

  it('token: an index of two platforms, made and pushed by buildah, is pulled by platform', async () => {
    const { registry } = await start('token');
    const reference = `${registry.host}/live/both:1`;
    await sh(`
      B="buildah --root $PWD/containers --runroot $PWD/run --storage-driver vfs"
      $B manifest create both >/dev/null
      for arch in amd64 arm64; do
        echo $arch > motd; id=$($B from scratch); $B copy -q $id motd /motd >/dev/null
        $B config --arch $arch --os linux $id; $B commit -q --rm $id one:$arch >/dev/null
        $B manifest add both one:$arch >/dev/null
      done
      $B manifest push -q --all --tls-verify=false --creds '${USER.username}:${USER.secret}' both docker://${reference}`);
    await using client = createRegistryClient({ credentials: alice });
    const digests = await Promise.all(
      ['amd64', 'arm64'].map(
        async (architecture) =>
          (
            await pullImage(client, store, reference, {
              ...transfer,
              platform: { os: 'linux', architecture },
            })
          ).manifestDigest,
      ),
    );
    expect(new Set(digests).size).toBe(2);
  });
});

suite('our registry', () => {
  it('is read by skopeo, docker and podman, and written where that is allowed', async () => {
    const made = await makeImage(store, {
      reference: 'docker.io/tools/hello:1',
      busybox: true,
      compression: 'gzip',
      config: { cmd: ['echo', 'hello from here'] },
    });
    await using served = await serveRegistry({ store });
    const reference = `${served.host}/tools/hello:1`;
    const inspected = JSON.parse(await sh(`skopeo inspect --tls-verify=false docker://${reference}`)) as {
      Digest: string;
      RepoTags: string[];
    };
    expect(inspected).toMatchObject({ Digest: made.digest, RepoTags: ['1'] });
    expect(
      await sh(
        `docker pull -q ${reference} >/dev/null; docker run --rm --network none ${reference}; docker rmi -f ${reference} >/dev/null`,
      ),
    ).toBe('hello from here\n');
    await expect(
      sh(
        `skopeo copy -q --src-tls-verify=false --dest-tls-verify=false docker://${reference} docker://${served.host}/new:1`,
      ),
    ).rejects.toThrow();
    await using writable = await serveRegistry({ store, writable: true });
    const written = `${writable.host}/written/by:skopeo`;
    await sh(
      `skopeo copy -q --src-tls-verify=false --dest-tls-verify=false docker://${reference} docker://${written}`,
    );
    await mkdir(join(directory, 'ctx'), { recursive: true });
    await writeFile(join(directory, 'ctx/Dockerfile'), `FROM ${written}\nLABEL a=b\nCOPY f /f\n`);
    await writeFile(join(directory, 'ctx/f'), randomBytes(100_000));
    const ours = `${writable.host}/written/by:docker`;
    await sh(
      `docker build -q -t ${ours} ctx; docker push -q ${ours}; docker rmi -f ${ours} ${written}; docker pull -q ${ours}; docker rmi -f ${ours}`,
    );
    const copy = `podman --root $PWD/podman --runroot $PWD/podman-run --storage-driver vfs`;
    await sh(
      `${copy} pull -q --tls-verify=false ${ours}; ${copy} push -q --tls-verify=false ${ours} ${writable.host}/written/by:podman`,
    );
    await using client = createRegistryClient();
    expect(await client.listTags(parseReference(`${writable.host}/written/by`), transfer)).toEqual([
      'docker',
      'podman',
      'skopeo',
    ]);
    await exercise(client, writable.host);
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  });
});
