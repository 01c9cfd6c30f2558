import { describe, expect, it } from 'vitest';
import { HttpFailure } from '../../../kernel/http/index.ts';
import { type Canned, calling, type Made } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import type { ManifestBytes } from '../../port.ts';
import { deleteBlob, hasBlob } from './blobs.ts';
import { deleteManifest, getManifest, headManifest, putManifest } from './manifests.ts';
import { listTags } from './tags.ts';
import { manifestPath } from './target.ts';

const NAME = 'r.test/team/app:1';
const PULL = ['repository:team/app:pull'];
const PUSH = ['repository:team/app:pull,push'];
const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const BODY = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
const DIGEST = digestOf(BODY);
const manifest: ManifestBytes = {
  descriptor: { mediaType: IMAGE, digest: DIGEST, size: BODY.length },
  bytes: Buffer.from(BODY),
};
const ACCEPT =
  'application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, ' +
  'application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json';
const getting: Made = {
  path: 'team/app/manifests/1',
  subject: NAME,
  scopes: PULL,
  accept: [200],
  collect: 8 * 1024 * 1024,
  headers: { accept: ACCEPT, 'accept-encoding': 'identity' },
  lane: 'control',
};
const good: Canned = { headers: { 'content-type': IMAGE }, body: BODY };

describe('whether a blob is there', () => {
  const head: Made = {
    method: 'HEAD',
    path: `team/app/blobs/${DIGEST}`,
    subject: `${NAME}, blob ${DIGEST}`,
    scopes: PULL,
    accept: [200, 404, 405, 403, 400],
    lane: 'control',
  };
  const { method: _, ...common } = head;
  const probe: Made = {
    ...common,
    subject: NAME,
    accept: [200, 206, 404],
    headers: { range: 'bytes=0-0' },
  };

  it.each<[Canned, boolean]>([
    [{}, true],
    [{ status: 404 }, false],
    [{ status: 403, url: 'https://cdn.test/x' }, false],
    [{ status: 400, url: 'https://cdn.test/x' }, false],
    [{ status: 405, url: 'https://cdn.test/x' }, false],
    [{ status: 200, url: 'https://cdn.test/x' }, true],
  ])('is said by the head %j', async (reply, there) => {
    const { target, calls } = calling([reply]);
    expect(await hasBlob(target, DIGEST)).toBe(there);
    expect(calls).toEqual([head]);
  });

  it.each([
    [200, true],
    [206, true],
    [404, false],
  ])('is said by its first byte where there is no HEAD: %i', async (status, there) => {
    const { target, calls } = calling([{ status: 405 }, { status }]);
    expect(await hasBlob(target, DIGEST)).toBe(there);
    expect(calls).toEqual([head, probe]);
  });

  it.each([
    [403, 'REGISTRY_FORBIDDEN'],
    [400, 'REGISTRY_REFUSED'],
  ])('is not known where the registry answers with %i', async (status, code) => {
    await expect(hasBlob(calling([{ status }]).target, DIGEST)).rejects.toMatchObject({
      code,
      message: `${NAME}: r.test does not say whether it has ${DIGEST} (status ${status})`,
      hint: 'ask for access to the repository, or log in as someone who has it',
    });
  });

  it('is not asked of what is no digest', async () => {
    const { target, calls } = calling([]);
    await expect(hasBlob(target, 'sha256:x' as typeof DIGEST)).rejects.toMatchObject({
      code: 'DIGEST_INVALID',
      message: 'not a digest: "sha256:x"',
      hint: 'use parseDigest',
    });
    expect(calls).toEqual([]);
  });
});

describe('a deletion', () => {
  const removal: Made = {
    method: 'DELETE',
    path: `team/app/blobs/${DIGEST}`,
    subject: `${NAME}, blob ${DIGEST}`,
    scopes: ['repository:team/app:pull,delete'],
    accept: [200, 202, 204, 400, 405],
    lane: 'control',
  };

  it.each([200, 202, 204])('is done with %i', async (status) => {
    const { target, calls } = calling([{ status }]);
    await deleteBlob(target, DIGEST);
    expect(calls).toEqual([removal]);
  });

  it.each<[Canned, string]>([
    [{ status: 400 }, '(status 400)'],
    [{ status: 405, body: 'no\u001b' }, '(status 405, "no\\u001b")'],
    [{ status: 405, body: 'no', breaks: new HttpFailure('reset', 'gone') }, '(status 405)'],
    [{ status: 405, body: 'x'.repeat(64 * 1024 + 1) }, '(status 405)'],
  ])('that is not offered is an error, with what is said of it: %#', async (reply, said) => {
    await expect(deleteBlob(calling([reply]).target, DIGEST)).rejects.toMatchObject({
      code: 'REGISTRY_UNSUPPORTED',
      message: `${NAME}, blob ${DIGEST}: r.test does not delete this ${said}`,
      hint: 'many registries delete by digest only, or only when deletion is switched on',
    });
  });

  it('of a tag asks for nothing else', async () => {
    const { target, calls } = calling([{ status: 202 }]);
    await deleteManifest(target);
    expect(calls).toEqual([{ ...removal, path: 'team/app/manifests/1', subject: NAME }]);
  });

  it('of what cannot be read goes on, of what may be read later does not', async () => {
    const reference = `team/app@${DIGEST}`;
    for (const code of [
      'REGISTRY_NOT_FOUND',
      'REGISTRY_DIGEST_MISMATCH',
      'REGISTRY_ANSWER_INVALID',
      'OCI_MANIFEST_INVALID',
    ] as const) {
      const replies = [ociError(code, 'no', { hint: 'do' }), { status: 202 }];
      const { target, calls } = calling(replies, { reference });
      await deleteManifest(target);
      expect(calls.map(({ method }) => method)).toEqual([undefined, 'DELETE']);
    }
    const busy = ociError('REGISTRY_BUSY', 'no', { hint: 'do' });
    const { target, calls } = calling([busy], { reference });
    await expect(deleteManifest(target)).rejects.toBe(busy);
    expect(calls).toHaveLength(1);
  });
});

describe('a manifest', () => {
  it('is asked for in every form, uncompressed', async () => {
    const { target, calls } = calling([good]);
    expect((await getManifest(target)).descriptor).toEqual(manifest.descriptor);
    expect(calls).toEqual([getting]);
  });

  it('stands at its digest, else at its tag, else at latest', () => {
    const { target } = calling([]);
    const bare = { registry: 'r.test', repository: 'team/app' };
    const path = (reference: typeof target.reference): string => manifestPath({ ...target, reference });
    expect(path({ ...bare, tag: '2', digest: DIGEST })).toBe(`team/app/manifests/${DIGEST}`);
    expect(path({ ...bare, tag: '2' })).toBe('team/app/manifests/2');
    expect(path(bare)).toBe('team/app/manifests/latest');
  });

  it('with another digest than asked for or claimed is not used', async () => {
    const other = digestOf('other');
    const claimed = { ...good, headers: { ...good.headers, 'docker-content-digest': other } };
    for (const [reply, reference] of [
      [claimed, 'team/app:1'],
      [good, `team/app@${other}`],
    ] as const) {
      const { target } = calling([reply], { reference });
      await expect(getManifest(target)).rejects.toMatchObject({
        code: 'REGISTRY_DIGEST_MISMATCH',
        message: `${target.subject}: r.test sent a manifest with digest ${DIGEST} instead of ${other}`,
        hint: 'the bytes are not used; ask who runs the registry or the mirror',
      });
    }
  });
});

describe('the head of a manifest', () => {
  const head: Made = {
    method: 'HEAD',
    path: 'team/app/manifests/1',
    subject: NAME,
    scopes: PULL,
    accept: [200, 404, 405, 501],
    headers: { accept: ACCEPT },
    lane: 'control',
  };
  const headers = { 'content-type': IMAGE, 'docker-content-digest': DIGEST, 'content-length': '57' };

  it('says what it is, where it says it all', async () => {
    for (const type of [IMAGE, ` ${IMAGE} ; charset=utf-8`]) {
      const { target, calls } = calling([{ headers: { ...headers, 'content-type': type } }]);
      expect(await headManifest(target)).toEqual({ mediaType: IMAGE, digest: DIGEST, size: 57 });
      expect(calls).toEqual([head]);
    }
    expect(await headManifest(calling([{ status: 404 }]).target)).toBeUndefined();
  });

  it.each<[string, Canned]>([
    ['no HEAD', { status: 405 }],
    ['no HEAD, though it says all', { status: 501, headers }],
    ['no digest', { headers: { ...headers, 'docker-content-digest': [] } }],
    ['what is no digest', { headers: { ...headers, 'docker-content-digest': 'x' } }],
    ['no length', { headers: { ...headers, 'content-length': [] } }],
    ['a length of nothing', { headers: { ...headers, 'content-length': '' } }],
    ['a length and more', { headers: { ...headers, 'content-length': '5 7' } }],
    ['a negative length', { headers: { ...headers, 'content-length': '-57' } }],
    ['no type', { headers: { ...headers, 'content-type': [] } }],
    ['another type', { headers: { ...headers, 'content-type': 'text/html' } }],
  ])('with %s is asked for with its bytes', async (_, reply) => {
    const { target, calls } = calling([reply, good]);
    expect(await headManifest(target)).toEqual(manifest.descriptor);
    expect(calls).toEqual([head, getting]);
  });

  it('with the digest that was asked for is believed, with another the bytes decide', async () => {
    const reference = `team/app@${DIGEST}`;
    const same = calling([{ headers }], { reference });
    expect((await headManifest(same.target))?.size).toBe(57);
    expect(same.calls).toHaveLength(1);
    const said = { ...headers, 'docker-content-digest': digestOf('other') };
    const other = calling([{ headers: said }, good], { reference });
    expect(await headManifest(other.target)).toEqual(manifest.descriptor);
    expect(other.calls).toHaveLength(2);
  });
});

describe('a manifest is put', () => {
  const putting: Made = {
    method: 'PUT',
    path: 'team/app/manifests/1',
    subject: NAME,
    scopes: PUSH,
    accept: [200, 201, 202, 204],
    headers: { 'content-type': IMAGE },
    body: Buffer.from(BODY),
    lane: 'control',
  };
  const digest = digestOf(BODY, 'sha512');
  const long: ManifestBytes = { ...manifest, descriptor: { ...manifest.descriptor, digest } };
  const byDigest: Made = {
    ...putting,
    path: `team/app/manifests/${digest}?tag=1`,
    accept: [200, 201, 202, 204, 400, 404, 405, 415, 422],
  };

  it('as it is, under its tag, or its digest where that is all', async () => {
    const tagged = calling([{ status: 201 }]);
    await putManifest(tagged.target, manifest);
    expect(tagged.calls).toEqual([putting]);
    const reference = `team/app@${DIGEST}`;
    const bare = calling([{ status: 201 }], { reference });
    await putManifest(bare.target, manifest);
    const subject = `r.test/${reference}`;
    expect(bare.calls).toEqual([{ ...putting, path: `team/app/manifests/${DIGEST}`, subject }]);
  });

  it.each<[Canned, readonly Made[]]>([
    [{ status: 201, headers: { 'oci-tag': '1' } }, [byDigest]],
    [{ status: 201, headers: { 'oci-tag': ['2', ' 3 , 1 '] } }, [byDigest]],
    [{ status: 201, headers: { 'oci-tag': '11' } }, [byDigest, putting]],
    [{ status: 422, headers: { 'oci-tag': '1' } }, [byDigest, putting]],
  ])('known by sha512 also under its tag, as its answer says: %j', async (reply, calls) => {
    const world = calling([reply, { status: 201 }]);
    await putManifest(world.target, long);
    expect(world.calls).toEqual(calls);
  });

  it('only with its own digest', async () => {
    const error = {
      code: 'REGISTRY_DIGEST_MISMATCH',
      message: expect.stringMatching(/: the manifest to push does not have its digest$/) as string,
      hint: 'push it again from its source',
    };
    const reference = `team/app@${digestOf('other')}`;
    await expect(putManifest(calling([], { reference }).target, manifest)).rejects.toMatchObject(error);
    const changed = { ...manifest, bytes: Buffer.from(`${BODY} `) };
    await expect(putManifest(calling([]).target, changed)).rejects.toMatchObject(error);
  });

  it('and nothing else is done with one that the registry stored as another', async () => {
    const headers = { 'docker-content-digest': digestOf('other') };
    const { target, calls } = calling([{ status: 201, headers }]);
    await expect(putManifest(target, manifest)).rejects.toMatchObject({ code: 'REGISTRY_ANSWER_INVALID' });
    expect(calls).toHaveLength(1);
  });
});

describe('tags', () => {
  it('are asked for a thousand at a time, eight mebibytes each and 64 in all', async () => {
    const body = '{"tags":["a"]}'.padEnd(8 * 1024 * 1024 - 1);
    const replies = Array.from({ length: 9 }, (_, at) => ({
      body,
      headers: { link: `<?p=${at}>; rel="next"` },
    }));
    const { target, calls } = calling([...replies, { body: '{"tags":["b","a"]}' }]);
    await expect(listTags(target)).rejects.toThrow('more than 8 bytes');
    const call: Made = {
      path: 'team/app/tags/list?n=1000',
      subject: NAME,
      scopes: PULL,
      accept: [200],
      collect: 8 * 1024 * 1024,
      headers: { accept: 'application/json' },
      lane: 'control',
    };
    expect(calls[0]).toEqual(call);
    const next = { ...call, path: 'https://r.test/v2/team/app/tags/list?p=0' };
    expect(calls[1]).toEqual(next);
    expect(calls.map(({ collect }) => collect)).toEqual([
      ...Array.from({ length: 8 }, () => call.collect),
      8,
    ]);
  });
});
