import { describe, expect, it } from 'vitest';
import { asking, codeOf, type Reply, scriptedRegistry } from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';

const BODY = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
const TYPE = 'application/vnd.oci.image.manifest.v1+json';
const DIGEST = digestOf(BODY);
const good: Reply = { headers: { 'content-type': TYPE, 'docker-content-digest': DIGEST }, body: BODY };
const KEY = 'GET /v2/team/app/manifests/1';
const at = (path: string): string => `GET /v2/team/app/${path}`;

describe('manifests', () => {
  it('R107 R108 are checked against the digest asked for and the one that is claimed', async () => {
    const other = digestOf('other');
    await using registry = await scriptedRegistry({
      [KEY]: good,
      [at('manifests/2')]: { ...good, headers: { 'content-type': TYPE, 'docker-content-digest': other } },
      [at('manifests/3')]: {
        ...good,
        headers: { 'content-type': TYPE, 'docker-content-digest': 'nonsense' },
      },
      [at(`manifests/${other}`)]: good,
      [at(`manifests/${digestOf(BODY, 'sha512')}`)]: good,
    });
    await using asked = asking();
    const get = (rest: string) =>
      asked.client.getManifest(asked.at(registry.host, `team/app${rest}`), asked.options);
    expect((await get(':1')).descriptor).toEqual({ mediaType: TYPE, digest: DIGEST, size: BODY.length });
    expect(await codeOf(get(':2'))).toBe('REGISTRY_DIGEST_MISMATCH');
    expect((await get(':3')).descriptor.digest).toBe(DIGEST);
    expect(await codeOf(get(`@${other}`))).toBe('REGISTRY_DIGEST_MISMATCH');
    expect((await get(`@${digestOf(BODY, 'sha512')}`)).descriptor.digest).toBe(digestOf(BODY, 'sha512'));
    await get(`:9@${digestOf(BODY, 'sha512')}`);
    expect(registry.lines().at(-1)).toContain('manifests/sha512:');
  });

  const refused = [
    ['an endless body', { endless: true, headers: { 'content-type': TYPE } }, 'REGISTRY_ANSWER_TOO_LARGE'],
    ['a truncated body', { ...good, cutAfter: 5 }, 'REGISTRY_TRUNCATED'],
    ['a web page', { body: '<html>', headers: { 'content-type': 'text/html' } }, 'REGISTRY_ANSWER_INVALID'],
    [
      'a lying content type',
      { ...good, headers: { 'content-type': 'application/vnd.oci.image.index.v1+json' } },
      'OCI_MANIFEST_INVALID',
    ],
    [
      'a content type that is like its own',
      {
        headers: { 'content-type': 'application/vnd.docker.distribution.manifest.v2+json' },
        body: JSON.stringify({ schemaVersion: 2, mediaType: TYPE, config: {}, layers: [] }),
      },
      'OCI_MANIFEST_INVALID',
    ],
    [
      'layers and manifests at once',
      {
        ...good,
        headers: { 'content-type': TYPE },
        body: JSON.stringify({ schemaVersion: 2, config: {}, layers: [], manifests: [] }),
      },
      'OCI_MANIFEST_INVALID',
    ],
    ['a redirect to nowhere', { status: 302 }, 'REGISTRY_ANSWER_INVALID'],
    [
      'a redirect in a circle',
      { status: 307, headers: { location: '/v2/team/app/manifests/1' } },
      'REGISTRY_ANSWER_INVALID',
    ],
    [
      'a redirect to a file',
      { status: 307, headers: { location: 'file:///etc/passwd' } },
      'REGISTRY_ADDRESS_REFUSED',
    ],
    [
      'a redirect to the metadata address',
      { status: 307, headers: { location: 'http://169.254.169.254/' } },
      'REGISTRY_ADDRESS_REFUSED',
    ],
    [
      'a redirect with credentials in it',
      { status: 307, headers: { location: 'http://a:b@127.0.0.1/' } },
      'REGISTRY_ADDRESS_REFUSED',
    ],
    [
      'forbidden',
      { status: 403, body: '{"errors":[{"code":"DENIED","message":"no\\u001b[2J"}]}' },
      'REGISTRY_FORBIDDEN',
    ],
    ['teapot', { status: 418 }, 'REGISTRY_REFUSED'],
    ['an error without a word', { status: 404 }, 'REGISTRY_NOT_FOUND'],
    ['an error told as a web page', { status: 404, body: '<html>no</html>' }, 'REGISTRY_NOT_FOUND'],
    ['an endless error', { status: 404, endless: true }, 'REGISTRY_NOT_FOUND'],
    ['an error that breaks off', { status: 403, body: '{"errors":[', cutAfter: 3 }, 'REGISTRY_FORBIDDEN'],
    [
      'one longer than 8 MiB, announced',
      { headers: { 'content-length': '8388609' } },
      'REGISTRY_ANSWER_TOO_LARGE',
    ],
    [
      'schema 1',
      { body: '{"schemaVersion":1,"mediaType":"application/vnd.docker.distribution.manifest.v1+json"}' },
      'OCI_MANIFEST_INVALID',
    ],
    ['no content', { status: 204 }, 'REGISTRY_ANSWER_INVALID'],
  ] as const;
  it.each(refused)('R106 R110 R111 R154 end at %s with a code', async (_, reply: Reply, code) => {
    await using registry = await scriptedRegistry({ [KEY]: reply });
    await using asked = asking();
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(code);
  });

  it('R127 say in their error what was asked, who answered what, and nothing that drives a terminal', async () => {
    await using registry = await scriptedRegistry({
      [KEY]: { status: 403, body: '{"errors":[{"code":"DENIED","message":"no\\u001b[2J"}]}' },
    });
    await using asked = asking();
    const message = await asked.client
      .getManifest(asked.at(registry.host), asked.options)
      .catch((error: Error) => error.message);
    expect(message).toBe(
      `${registry.host}/team/app:1: ${registry.host} answered with status 403, "DENIED: no\\u001b[2J"`,
    );
  });

  it('R109 have a head, from headers where they suffice and from the bytes where not', async () => {
    const head = (reply: Reply) => ({ 'HEAD /v2/team/app/manifests/1': reply, [KEY]: good });
    for (const [reply, lines] of [
      [good, 1],
      [{ headers: { 'content-type': TYPE } }, 2],
      [{ headers: { 'docker-content-digest': DIGEST } }, 2],
      [{ headers: { 'docker-content-digest': DIGEST, 'content-type': 'text/html' } }, 2],
      [{ status: 405 }, 2],
      [{ headers: { 'content-type': TYPE, 'docker-content-digest': 'sha256:x' }, body: BODY }, 2],
    ] as const) {
      await using registry = await scriptedRegistry(head(reply));
      await using asked = asking();
      expect(await asked.client.headManifest(asked.at(registry.host), asked.options)).toEqual({
        mediaType: TYPE,
        digest: DIGEST,
        size: BODY.length,
      });
      expect(registry.lines()).toHaveLength(lines);
    }
    await using registry = await scriptedRegistry(head({ status: 404 }));
    await using asked = asking();
    expect(await asked.client.headManifest(asked.at(registry.host), asked.options)).toBeUndefined();
  });

  it('R89 R135 R149 are put as they are, and what the registry made of them is looked at', async () => {
    await using registry = await scriptedRegistry({
      'PUT /v2/team/app/manifests/1': { status: 201, headers: { 'docker-content-digest': DIGEST } },
      'PUT /v2/team/app/manifests/2': {
        status: 201,
        headers: { 'docker-content-digest': digestOf('other') },
      },
      'PUT /v2/team/app/manifests/3': [
        { status: 429, body: '{"errors":[{"code":"TOOMANYREQUESTS"}]}' },
        { status: 201 },
      ],
      [`PUT /v2/team/app/manifests/${DIGEST}`]: { status: 201 },
    });
    await using asked = asking();
    const manifest = {
      descriptor: { mediaType: TYPE, digest: DIGEST, size: BODY.length },
      bytes: Buffer.from(BODY),
    };
    const put = (rest: string) =>
      asked.client.putManifest(asked.at(registry.host, `team/app${rest}`), manifest, asked.options);
    await put(':1');
    expect(registry.asked.at(-1)).toMatchObject({
      body: Buffer.from(BODY),
      headers: { 'content-type': TYPE },
    });
    expect(await codeOf(put(':2'))).toBe('REGISTRY_ANSWER_INVALID');
    await put(':3');
    expect(asked.clock.slept).toHaveLength(1);
    await put(`@${DIGEST}`);
    expect(await codeOf(put(`:1@${digestOf('other')}`))).toBe('REGISTRY_DIGEST_MISMATCH');
    expect(
      await codeOf(
        asked.client.putManifest(
          asked.at(registry.host),
          { ...manifest, bytes: Buffer.from('x') },
          asked.options,
        ),
      ),
    ).toBe('REGISTRY_DIGEST_MISMATCH');
  });

  it('R100 are deleted, or it is said that this registry does not', async () => {
    await using registry = await scriptedRegistry({
      [`DELETE /v2/team/app/manifests/${DIGEST}`]: { status: 202 },
      'DELETE /v2/team/app/manifests/old': { status: 202 },
      [`DELETE /v2/team/app/blobs/${DIGEST}`]: { status: 202 },
      'DELETE /v2/team/app/manifests/1': { status: 405 },
      'DELETE /v2/team/app/manifests/kept': { status: 400 },
    });
    await using asked = asking();
    await asked.client.deleteManifest(asked.at(registry.host, `team/app@${DIGEST}`), asked.options);
    await asked.client.deleteManifest(asked.at(registry.host, 'team/app:old'), asked.options);
    await asked.client.deleteBlob(asked.at(registry.host), DIGEST, asked.options);
    expect(registry.lines().filter((line) => line.startsWith('DELETE'))).toEqual([
      `DELETE /v2/team/app/manifests/${DIGEST}`,
      'DELETE /v2/team/app/manifests/old',
      `DELETE /v2/team/app/blobs/${DIGEST}`,
    ]);
    expect(await codeOf(asked.client.deleteManifest(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_UNSUPPORTED',
    );
    const kept = asked.at(registry.host, 'team/app:kept');
    expect(await codeOf(asked.client.deleteManifest(kept, asked.options))).toBe('REGISTRY_UNSUPPORTED');
    const other = digestOf('other');
    expect(await codeOf(asked.client.deleteBlob(asked.at(registry.host), other, asked.options))).toBe(
      'REGISTRY_NOT_FOUND',
    );
    expect(
      await codeOf(asked.client.deleteManifest(asked.at(registry.host, 'team/app:none'), asked.options)),
    ).toBe('REGISTRY_NOT_FOUND');
  });
});

it('R128 passes on what the registry warns of', async () => {
  await using registry = await scriptedRegistry({
    [KEY]: {
      ...good,
      headers: {
        ...good.headers,
        warning: ['299 - "use \\"v2\\""', '299 example "not the agent -"', '199 - "not 299"', '299 - "and"'],
      },
    },
  });
  await using asked = asking();
  await asked.client.getManifest(asked.at(registry.host), asked.options);
  expect(asked.events).toEqual([
    { type: 'registry.warning', registry: registry.host, message: '"use \\"v2\\""' },
    { type: 'registry.warning', registry: registry.host, message: '"and"' },
  ]);
});
