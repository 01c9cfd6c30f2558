import { describe, expect, it } from 'vitest';
import { asking, codeOf, type Reply, scriptedRegistry } from '../../../testkit/registry/index.ts';
import {
  BLOB,
  BYTES,
  here,
  pushBlob,
  type Rules,
  START,
  sent,
  UPLOADS,
} from '../../../testkit/registry/pushing.ts';
import { digestOf } from '../../names/index.ts';

describe('a blob', () => {
  it('R60 that is there is not sent', async () => {
    const outcome = await pushBlob({ [`HEAD /v2/team/app/blobs/${BLOB.digest}`]: {} });
    expect(outcome).toMatchObject({ result: 'present', opened: [], lines: ['HEAD /v2/team/app/blobs/D'] });
  });

  it.each([
    ['relative', `${UPLOADS}1`, `${UPLOADS}1?digest=`],
    ['with a query of its own', `${UPLOADS}1?_state=a%2Bb%2F==`, `${UPLOADS}1?_state=a%2Bb%2F==&digest=`],
  ])('R61 R67 goes up whole to a location that is %s', async (_, location, url) => {
    const outcome = await pushBlob({ [START]: here(location) });
    expect(outcome.result).toBe('uploaded');
    expect(outcome.lines.slice(0, 2)).toEqual(['HEAD /v2/team/app/blobs/D', START]);
    const put = sent(outcome, 'PUT')[0];
    expect(put?.url).toBe(`${url}${encodeURIComponent(BLOB.digest)}`);
    expect(put?.body.equals(BYTES)).toBe(true);
    expect(put?.headers).toMatchObject({
      'content-length': '300000',
      'content-type': 'application/octet-stream',
    });
    expect(put?.headers['transfer-encoding']).toBeUndefined();
    expect(sent(outcome, 'POST')[0]?.headers['content-length']).toBe('0');
  });

  it('of no bytes goes up too', async () => {
    const digest = digestOf('');
    expect(
      await pushBlob({ [START]: here() }, { blob: { ...BLOB, digest, size: 0 }, bytes: Buffer.alloc(0) }),
    ).toMatchObject({ result: 'uploaded' });
  });

  it('R62 goes to another host where the registry says so, without its credentials', async () => {
    await using storage = await scriptedRegistry({ 'PUT /store': { status: 201 } });
    const challenge: Reply = { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } };
    const outcome = await pushBlob(
      { 'GET /v2/': challenge, [START]: here(`http://${storage.host}/store?sig=1`) },
      { client: { credentials: async () => ({ kind: 'basic', username: 'u', password: 'p' }) } },
    );
    expect(outcome.result).toBe('uploaded');
    expect(sent(outcome, 'POST')[0]?.headers.authorization).toMatch(/^Basic/);
    expect(storage.asked[0]?.headers.authorization).toBeUndefined();
  });

  it.each([
    ['ftp://x/y', 'REGISTRY_ADDRESS_REFUSED'],
    ['http://u:p@127.0.0.1/', 'REGISTRY_ADDRESS_REFUSED'],
    ['http://169.254.169.254/', 'REGISTRY_ADDRESS_REFUSED'],
  ])('is not sent to the location %j', async (location, code) => {
    const outcome = await pushBlob({ [START]: here(location) });
    expect(outcome).toMatchObject({ result: code, opened: [] });
  });

  it('R63 without a location to go to ends in an error', async () => {
    expect((await pushBlob({ [START]: { status: 202 } })).result).toBe('REGISTRY_ANSWER_INVALID');
  });

  it('R82 stored as another is an error', async () => {
    const outcome = await pushBlob({
      [START]: here(),
      [`PUT ${UPLOADS}1`]: { status: 201, headers: { 'docker-content-digest': digestOf('other') } },
    });
    expect(outcome.result).toBe('REGISTRY_ANSWER_INVALID');
  });

  it('R81 whose source is shorter or longer than it should be is an error of ours', async () => {
    expect((await pushBlob({ [START]: here() }, { bytes: BYTES.subarray(1) })).result).toBe(
      'OCI_BLOB_CORRUPT',
    );
    expect((await pushBlob({ [START]: here() }, { bytes: Buffer.concat([BYTES, BYTES]) })).result).toBe(
      'OCI_BLOB_CORRUPT',
    );
  });

  it('R78 is sent again from the start where the registry knows nothing of the upload any more', async () => {
    const outcome = await pushBlob({
      [START]: here(),
      [`PUT ${UPLOADS}1`]: [{ status: 503, headers: { 'retry-after': '4' } }, { status: 201 }],
    });
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0, 0], slept: [4000] });
    const failing = await pushBlob({ [START]: here(), [`PUT ${UPLOADS}1`]: { status: 503 } });
    expect(failing.result).toBe('REGISTRY_BUSY');
    expect(failing.opened.length).toBeLessThanOrEqual(6);
    const client = { chunkSize: 131_072 };
    const forgetting = await pushBlob(
      { [START]: here(), [`PATCH ${UPLOADS}1`]: [{ status: 404 }, { status: 404 }, { status: 404 }, here()] },
      { client },
    );
    expect(forgetting.result).toBe('uploaded');
    expect(sent(forgetting, 'POST')).toHaveLength(4);
    const never = await pushBlob({ [START]: here(), [`PATCH ${UPLOADS}1`]: { status: 404 } }, { client });
    expect(never.result).toBe('REGISTRY_NOT_FOUND');
    expect(sent(never, 'POST')).toHaveLength(4);
  });

  it('survives a token that ends under way, refused before its body was read', async () => {
    let issued = 0;
    const challenge = (host: string | undefined): Reply => ({
      status: 401,
      headers: { 'www-authenticate': `Bearer realm="http://${host}/token",service="s"` },
    });
    const outcome = await pushBlob(
      {
        'GET /v2/': (asked) => challenge(asked.headers.host),
        'GET /token': () => ({ body: JSON.stringify({ token: `t${++issued}` }) }),
        [START]: here(),
      },
      {
        scripted: {
          early: (request) =>
            request.method === 'PUT' && request.headers.authorization === 'Bearer t2'
              ? challenge(request.headers.host)
              : undefined,
        },
      },
    );
    expect(outcome).toMatchObject({ result: 'uploaded', slept: [] });
    expect(sent(outcome, 'PUT').map((entry) => entry.headers.authorization)).toEqual([
      'Bearer t2',
      'Bearer t3',
    ]);
    expect(sent(outcome, 'PUT')[1]?.body.equals(BYTES)).toBe(true);
  });

  it('that is refused under way with every token ends in an error', async () => {
    let issued = 0;
    const challenge = (host: string | undefined): Reply => ({
      status: 401,
      headers: { 'www-authenticate': `Bearer realm="http://${host}/token",service="s"` },
    });
    const outcome = await pushBlob({
      'GET /v2/': (asked) => challenge(asked.headers.host),
      'GET /token': () => ({ body: JSON.stringify({ token: `t${++issued}` }) }),
      [START]: here(),
      [`PUT ${UPLOADS}1`]: (asked) => challenge(asked.headers.host),
    });
    expect(outcome.result).toBe('REGISTRY_UNAUTHORIZED');
    expect(sent(outcome, 'PUT')).toHaveLength(2);
  });
});

describe('mounting', () => {
  const MOUNT = { mountFrom: 'lib/base' };

  it('R83 moves no byte where the registry agrees', async () => {
    const outcome = await pushBlob({ [START]: { status: 201 } }, MOUNT);
    expect(outcome).toMatchObject({ result: 'mounted', opened: [] });
    expect(outcome.lines[1]).toBe(`${START}?mount=D&from=lib/base`);
  });

  it('R84 goes on with the upload that was opened instead', async () => {
    const outcome = await pushBlob({ [START]: here() }, MOUNT);
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0] });
    expect(sent(outcome, 'POST')).toHaveLength(1);
  });

  it.each([400, 401, 403, 404, 405])(
    'R85 R130 R132 refused with %i is an upload, and the token stays good',
    async (status) => {
      let tokens = 0;
      const outcome = await pushBlob(
        {
          'GET /v2/': (asked) => ({
            status: 401,
            headers: { 'www-authenticate': `Bearer realm="http://${asked.headers.host}/token"` },
          }),
          'GET /token': () => ({ body: JSON.stringify({ token: `t${++tokens}` }) }),
          [START]: (asked) => (asked.query.has('mount') ? { status } : here()),
        },
        MOUNT,
      );
      expect(outcome).toMatchObject({ result: 'uploaded', opened: [0] });
      const mount = outcome.asked.filter((entry) => entry.path === '/token')[1];
      expect(mount?.query.getAll('scope')).toEqual([
        'repository:team/app:pull,push',
        'repository:lib/base:pull',
      ]);
      // One for HEAD, one with both scopes, which serves the upload as well.
      expect(tokens).toBe(2);
    },
  );

  it('R85 is an upload where the token server refuses the source', async () => {
    const outcome = await pushBlob(
      {
        'GET /v2/': (asked) => ({
          status: 401,
          headers: { 'www-authenticate': `Bearer realm="http://${asked.headers.host}/token"` },
        }),
        'GET /token': (asked) =>
          asked.query.getAll('scope').length > 1 ? { status: 403 } : { body: '{"token":"t"}' },
        [START]: (asked) => (asked.query.has('mount') ? { status: 201 } : here()),
      },
      MOUNT,
    );
    expect(outcome.result).toBe('uploaded');
  });

  it('R87 asks for the source where rules put it, and not at all across hosts', async () => {
    const rule = (prefix: string, location: string) => ({
      prefix,
      location,
      mirrors: [],
      insecure: false,
      blocked: false,
    });
    await using registry = await scriptedRegistry({
      'POST /v2/deep/team/app/blobs/uploads/': { status: 201 },
      'PUT /u': { status: 201 },
    });
    const source = async function* (): AsyncGenerator<Uint8Array> {
      yield BYTES;
    };
    await using asked = asking({
      rules: [rule('hub.test', `${registry.host}/deep`), rule('hub.test/lib', 'elsewhere.test')],
    });
    await asked.client.putBlob(asked.at('hub.test'), BLOB, source, { ...asked.options, mountFrom: 'base/x' });
    expect(registry.asked.at(-1)?.query.get('from')).toBe('deep/base/x');
    await codeOf(
      asked.client.putBlob(asked.at('hub.test'), BLOB, source, { ...asked.options, mountFrom: 'lib/x' }),
    );
    expect(registry.asked.some((entry) => entry.query.get('from')?.includes('lib') === true)).toBe(false);
  });
});

describe('looking for a blob', () => {
  const HEAD = `HEAD /v2/team/app/blobs/${BLOB.digest}`;
  const has = async (rules: Rules): Promise<boolean | string> => {
    await using registry = await scriptedRegistry(rules);
    await using asked = asking();
    let found = false;
    const code = await codeOf(
      asked.client.hasBlob(asked.at(registry.host), BLOB.digest, asked.options).then((value) => {
        found = value;
      }),
    );
    return code === 'no error' ? found : code;
  };

  it('R60 asks with GET where HEAD is not known', async () => {
    expect(
      await has({
        [HEAD]: { status: 405 },
        [`GET /v2/team/app/blobs/${BLOB.digest}`]: { status: 206, body: 'x' },
      }),
    ).toBe(true);
    expect(await has({ [HEAD]: { status: 405 } })).toBe(false);
  });

  it('does not take the word of storage that cannot say', async () => {
    await using storage = await scriptedRegistry({ 'HEAD /no': { status: 403 }, 'HEAD /yes': {} });
    expect(await has({ [HEAD]: { status: 307, headers: { location: `http://${storage.host}/no` } } })).toBe(
      false,
    );
    expect(await has({ [HEAD]: { status: 307, headers: { location: `http://${storage.host}/yes` } } })).toBe(
      true,
    );
    expect(await has({ [HEAD]: { status: 403 } })).toBe('REGISTRY_FORBIDDEN');
  });
});
