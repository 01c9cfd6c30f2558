import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Reply, type Script, scriptedRegistry } from '../../src/testkit/registry/index.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused } from '../support/refused.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const NO_DIGEST = `sha256:${'0'.repeat(64)}`;
const config = { mediaType: 'application/vnd.oci.image.config.v1+json', digest: NO_DIGEST, size: 2 };
const manifest = JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [] });
const asManifest = { headers: { 'content-type': MANIFEST } };

/** What a registry may answer to the question for a manifest, and what that ends in. Some are asked again for a while. */
const answers: readonly {
  readonly code: string;
  readonly exit: number;
  readonly what: string;
  readonly reply: Reply | Script;
  readonly says: readonly (string | RegExp)[];
}[] = [
  {
    code: 'REGISTRY_NOT_FOUND',
    exit: 20,
    what: 'no such tag',
    reply: { status: 404 },
    says: ['status 404'],
  },
  {
    code: 'REGISTRY_FORBIDDEN',
    exit: 27,
    what: 'somebody else may',
    reply: { status: 403, body: '{"errors":[{"code":"DENIED","message":"not \\u001b[2Jyou"}]}' },
    says: ['status 403', 'DENIED', 'not \\u001b[2Jyou'],
  },
  {
    code: 'REGISTRY_UNAUTHORIZED',
    exit: 27,
    what: 'a password is wanted',
    reply: { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } },
    says: ['status 401', 'skycap login'],
  },
  {
    code: 'REGISTRY_AUTH_INVALID',
    exit: 27,
    what: 'a token server that is no address',
    reply: { status: 401, headers: { 'www-authenticate': 'Bearer realm="nowhere"' } },
    says: ['nowhere', 'token server'],
  },
  {
    code: 'REGISTRY_UNSUPPORTED',
    exit: 28,
    what: 'an operation that is switched off',
    reply: { status: 405 },
    says: ['status 405'],
  },
  {
    code: 'REGISTRY_REFUSED',
    exit: 28,
    what: 'what it was asked',
    reply: { status: 418 },
    says: ['status 418'],
  },
  {
    code: 'REGISTRY_BUSY',
    exit: 28,
    what: 'too many requests, again and again',
    reply: { status: 429 },
    says: ['status 429'],
  },
  {
    code: 'REGISTRY_ANSWER_INVALID',
    exit: 29,
    what: 'a redirect in circles',
    reply: { status: 307, headers: { location: '/v2/acme/tools/manifests/1' } },
    says: ['redirects in circles'],
  },
  {
    code: 'REGISTRY_ANSWER_TOO_LARGE',
    exit: 29,
    what: 'a manifest without end',
    reply: { ...asManifest, endless: true },
    says: [/longer|more than|bytes/],
  },
  {
    code: 'REGISTRY_TRUNCATED',
    exit: 29,
    what: 'a manifest that keeps breaking off',
    reply: { ...asManifest, body: manifest, cutAfter: 20 },
    says: ['connection lost'],
  },
  {
    code: 'REGISTRY_ADDRESS_REFUSED',
    exit: 26,
    what: 'a redirect that carries credentials',
    reply: { status: 307, headers: { location: 'http://me:secret@127.0.0.1:1/' } },
    says: ['carries credentials'],
  },
];

describe.each(enginesToTest('oci-runtime'))('registries, on %s', (engine) => {
  let world: World;

  beforeAll(async () => {
    world = await makeWorld(engine);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const pull = (reference: string): Promise<Ran> => world.skycap(['image', 'pull', reference]);

  it.concurrent.each(answers)('$code $what', async ({ code, exit, reply, says }) => {
    await using registry = await scriptedRegistry({
      'GET /v2/acme/tools/manifests/1': reply,
      'HEAD /v2/acme/tools/manifests/1': reply,
    });
    const reference = `${registry.host}/acme/tools:1`;
    const ran = await pull(reference);
    expectRefused(ran, { code, exit, says: [registry.host, ...says] });
    expect(ran.stderr).not.toContain('secret');
    expect(ran.stdout).toBe('');
  });

  it('REGISTRY_DIGEST_MISMATCH other bytes than were asked for', async () => {
    await using registry = await scriptedRegistry({
      [`GET /v2/acme/tools/manifests/${NO_DIGEST}`]: { ...asManifest, body: manifest },
    });
    expectRefused(await pull(`${registry.host}/acme/tools@${NO_DIGEST}`), {
      code: 'REGISTRY_DIGEST_MISMATCH',
      exit: 23,
      says: [registry.host, NO_DIGEST],
    });
  });

  it('IMAGE_PLATFORM an index without an image', async () => {
    const index = 'application/vnd.oci.image.index.v1+json';
    const body = JSON.stringify({ schemaVersion: 2, mediaType: index, manifests: [] });
    const reply = { headers: { 'content-type': index }, body };
    await using registry = await scriptedRegistry({
      'GET /v2/acme/tools/manifests/1': reply,
      'HEAD /v2/acme/tools/manifests/1': reply,
    });
    const cwd = world.bundle({
      'porter.yaml': `name: none\nversion: 1.0.0\ninvocationImages:\n  - {name: tools, image: "${registry.host}/acme/tools:1"}\ninstall:\n  - invoke: {name: tools, action: {command: [a]}}\n`,
    });
    expectRefused(await world.skycap(['lock'], { cwd }), {
      code: 'IMAGE_PLATFORM',
      exit: 21,
      says: [`${registry.host}/acme/tools:1`, 'index'],
    });
  });

  it('REGISTRY_UNREACHABLE a port where nobody listens', async () => {
    expectRefused(await pull('127.0.0.1:1/acme/tools:1'), {
      code: 'REGISTRY_UNREACHABLE',
      exit: 26,
      says: ['127.0.0.1:1/acme/tools:1', 'ECONNREFUSED'],
    });
  });

  it('REGISTRY_TLS a certificate that nobody vouches for', async () => {
    await using registry = await scriptedRegistry({}, { tls: true });
    expectRefused(await pull(`${registry.host}/acme/tools:1`), {
      code: 'REGISTRY_TLS',
      exit: 26,
      says: [`${registry.host}/acme/tools:1`, 'certificate'],
    });
  });

  it('REGISTRY_BLOCKED a registry that the configuration blocks', () =>
    withFile(
      'config/skycap/config.yaml',
      'registries: [{prefix: blocked.example, blocked: true}]\n',
      async () => {
        expectRefused(await pull('blocked.example/acme/tools:1'), {
          code: 'REGISTRY_BLOCKED',
          exit: 26,
          says: ['blocked.example/acme/tools:1'],
        });
      },
    ));

  it('CREDENTIALS_FILE_INVALID a file that is no JSON, without a word of what is in it', () =>
    withFile('home/.docker/config.json', '{"auths": c2VjcmV0', async (file) => {
      const ran = await world.skycap(['logout', '127.0.0.1:1']);
      expectRefused(ran, { code: 'CREDENTIALS_FILE_INVALID', exit: 2, says: [file] });
      expect(ran.stderr).not.toContain('c2VjcmV0');
    }));

  it('CREDENTIALS_HELPER_FAILED a helper that is not installed', () =>
    withFile('home/.docker/config.json', '{"credHelpers": {"127.0.0.1:1": "none"}}', async () => {
      expectRefused(await world.skycap(['logout', '127.0.0.1:1']), {
        code: 'CREDENTIALS_HELPER_FAILED',
        exit: 27,
        says: ['docker-credential-none', 'not installed'],
      });
    }));

  it('REFERENCE_INVALID a name that no registry could have', async () => {
    expectRefused(await pull('Acme//Tools'), { code: 'REFERENCE_INVALID', exit: 20, says: ['Acme//Tools'] });
  });

  it('PLATFORM_INVALID a platform of one word', async () => {
    expectRefused(await world.skycap(['image', 'pull', 'acme/tools', '--platform', 'a/b/c/d']), {
      code: 'PLATFORM_INVALID',
      exit: 20,
      says: ['a/b/c/d'],
    });
  });

  it('REGISTRY_SERVE_FAILED a port that is taken', async () => {
    const taken = createServer();
    await new Promise<void>((listening) => taken.listen(0, '127.0.0.1', listening));
    const { port } = taken.address() as { port: number };
    expectRefused(await world.skycap(['registry', 'serve', '--port', String(port)]), {
      code: 'REGISTRY_SERVE_FAILED',
      exit: 28,
      says: [`127.0.0.1:${port}`, 'EADDRINUSE', '--port'],
    });
    taken.close();
  });

  /** With a file of the user's that is gone afterwards. */
  async function withFile(path: string, text: string, check: (file: string) => Promise<void>): Promise<void> {
    const file = join(world.directory, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text, { mode: 0o600 });
    try {
      await check(file);
    } finally {
      rmSync(file);
    }
    expectCode(await world.skycap(['image', 'list']), 0);
  }
});
