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
  it('R90 that are not what their descriptor says are not sent', async () => {
    await using registry = await scriptedRegistry({ '*': { status: 201 } });
    await using asked = asking();
    for (const [mediaType, text] of [
      ['application/vnd.oci.image.index.v1+json', BODY],
      [TYPE, JSON.stringify({ schemaVersion: 2, mediaType: 'x/y', config: {} })],
      [TYPE, 'not JSON'],
    ] as const) {
      const bytes = Buffer.from(text);
      const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
      const put = asked.client.putManifest(asked.at(registry.host), { descriptor, bytes }, asked.options);
      expect(['OCI_MANIFEST_INVALID', 'REGISTRY_ANSWER_INVALID']).toContain(await codeOf(put));
    }
    expect(registry.asked).toEqual([]);
  });

  it('R91 known by sha512 are put under that digest with their tag, and under the tag where that was not done', async () => {
    const digest = digestOf(BODY, 'sha512');
    const manifest = {
      descriptor: { mediaType: TYPE, digest, size: BODY.length },
      bytes: Buffer.from(BODY),
    };
    const byDigest = `PUT /v2/team/app/manifests/${digest}`;
    const byTag = 'PUT /v2/team/app/manifests/1';
    for (const [reply, lines] of [
      [{ status: 201, headers: { 'oci-tag': '1' } }, [`${byDigest}?tag=1`]],
      [{ status: 201, headers: { 'oci-tag': 'other, 1' } }, [`${byDigest}?tag=1`]],
      [{ status: 201 }, [`${byDigest}?tag=1`, byTag]],
      [{ status: 400 }, [`${byDigest}?tag=1`, byTag]],
    ] as const) {
      await using registry = await scriptedRegistry({
        [byDigest]: reply,
        [byTag]: { status: 201, headers: { 'docker-content-digest': DIGEST } },
      });
      await using asked = asking();
      await asked.client.putManifest(asked.at(registry.host), manifest, asked.options);
      expect(registry.lines()).toEqual(lines);
    }
    await using registry = await scriptedRegistry({ [byDigest]: { status: 201 } });
    await using asked = asking();
    await asked.client.putManifest(asked.at(registry.host, `team/app@${digest}`), manifest, asked.options);
    expect(registry.lines()).toEqual([byDigest]);
  });

  it('R105 are asked for in every form that can be read', async () => {
    await using registry = await scriptedRegistry({ [KEY]: good, 'HEAD /v2/team/app/manifests/1': good });
    await using asked = asking();
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    await asked.client.headManifest(asked.at(registry.host), asked.options);
    for (const entry of registry.asked.filter((item) => item.path !== '/v2/')) {
      expect(entry.headers.accept?.split(', ').toSorted()).toEqual([
        'application/vnd.docker.distribution.manifest.list.v2+json',
        'application/vnd.docker.distribution.manifest.v2+json',
        'application/vnd.oci.image.index.v1+json',
        'application/vnd.oci.image.manifest.v1+json',
      ]);
    }
  });

  it('R110 of up to 8 MiB are read', async () => {
    const long = 'x'.repeat(8 * 1024 * 1024 - 100);
    const body = JSON.stringify({ schemaVersion: 2, config: {}, layers: [], annotations: { long } });
    await using registry = await scriptedRegistry({ [KEY]: { headers: { 'content-type': TYPE }, body } });
    await using asked = asking();
    const { bytes } = await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(bytes.length).toBe(body.length);
  });

  it('R108 have the digest of their bytes, whatever is said beside a digest that was asked for', async () => {
    const headers = { 'content-type': TYPE, 'docker-content-digest': digestOf('other') };
    await using registry = await scriptedRegistry({
      [at(`manifests/${DIGEST}`)]: { ...good, headers },
      [`HEAD /v2/team/app/manifests/${DIGEST}`]: { ...good, headers },
    });
    await using asked = asking();
    const reference = asked.at(registry.host, `team/app@${DIGEST}`);
    expect((await asked.client.getManifest(reference, asked.options)).descriptor.digest).toBe(DIGEST);
    expect((await asked.client.headManifest(reference, asked.options))?.digest).toBe(DIGEST);
  });
});
