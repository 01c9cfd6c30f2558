import { describe, expect, it } from 'vitest';
import {
  type Asked,
  asking,
  codeOf,
  type Reply,
  type ScriptedOptions,
  scriptedRegistry,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import type { Descriptor } from '../../types.ts';
import type { RegistryClientOptions } from './types.ts';

const BYTES = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256));
const BLOB: Descriptor = { mediaType: 'x', digest: digestOf(BYTES), size: BYTES.length };
const UPLOADS = '/v2/team/app/blobs/uploads/';
const START = `POST ${UPLOADS}`;
const here = (location = `${UPLOADS}1`, more: Record<string, string> = {}): Reply => ({
  status: 202,
  headers: { location, ...more },
});
const CHUNK = 128 * 1024;

interface Outcome {
  readonly result: string;
  readonly lines: readonly string[];
  readonly asked: readonly Asked[];
  /** Offsets at which the source was opened. */
  readonly opened: readonly number[];
  readonly slept: readonly number[];
}

type Rules = Parameters<typeof scriptedRegistry>[0];

async function push(
  rules: Rules,
  more: {
    readonly client?: RegistryClientOptions;
    readonly mountFrom?: string;
    readonly blob?: Descriptor;
    readonly bytes?: Uint8Array;
    readonly scripted?: ScriptedOptions;
  } = {},
): Promise<Outcome> {
  await using registry = await scriptedRegistry(
    { [`PUT ${UPLOADS}1`]: { status: 201 }, ...rules },
    more.scripted,
  );
  await using asked = asking(more.client);
  const opened: number[] = [];
  const bytes = more.bytes ?? BYTES;
  const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
    opened.push(offset);
    for (let at = offset; at < bytes.length; at += 10_000) yield bytes.subarray(at, at + 10_000);
  };
  let result = '';
  const options = {
    ...asked.options,
    ...(more.mountFrom === undefined ? {} : { mountFrom: more.mountFrom }),
  };
  const code = await codeOf(
    asked.client.putBlob(asked.at(registry.host), more.blob ?? BLOB, source, options).then((how) => {
      result = how;
    }),
  );
  return {
    result: code === 'no error' ? result : code,
    lines: registry.lines().map((line) => line.replaceAll(BLOB.digest, 'D')),
    asked: registry.asked,
    opened,
    slept: asked.clock.slept,
  };
}

const sent = (outcome: Outcome, method: string): readonly Asked[] =>
  outcome.asked.filter((entry) => entry.method === method);

describe('a blob', () => {
  it('that is there is not sent', async () => {
    const outcome = await push({ [`HEAD /v2/team/app/blobs/${BLOB.digest}`]: {} });
    expect(outcome).toMatchObject({ result: 'present', opened: [], lines: ['HEAD /v2/team/app/blobs/D'] });
  });

  it.each([
    ['relative', `${UPLOADS}1`, `PUT ${UPLOADS}1?digest=D`],
    ['with a query of its own', `${UPLOADS}1?_state=a%2Bb%2F==`, `PUT ${UPLOADS}1?_state=a+b/==&digest=D`],
  ])('goes up whole to a location that is %s', async (_, location, line) => {
    const outcome = await push({ [START]: here(location) });
    expect(outcome.result).toBe('uploaded');
    expect(outcome.lines).toEqual(['HEAD /v2/team/app/blobs/D', START, line]);
    const put = sent(outcome, 'PUT')[0];
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
      await push({ [START]: here() }, { blob: { ...BLOB, digest, size: 0 }, bytes: Buffer.alloc(0) }),
    ).toMatchObject({ result: 'uploaded' });
  });

  it('goes to another host where the registry says so, without its credentials', async () => {
    await using storage = await scriptedRegistry({ 'PUT /store': { status: 201 } });
    const challenge: Reply = { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } };
    const outcome = await push(
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
    const outcome = await push({ [START]: here(location) });
    expect(outcome).toMatchObject({ result: code, opened: [] });
  });

  it('without a location to go to ends in an error', async () => {
    expect((await push({ [START]: { status: 202 } })).result).toBe('REGISTRY_ANSWER_INVALID');
  });

  it('stored as another is an error', async () => {
    const outcome = await push({
      [START]: here(),
      [`PUT ${UPLOADS}1`]: { status: 201, headers: { 'docker-content-digest': digestOf('other') } },
    });
    expect(outcome.result).toBe('REGISTRY_ANSWER_INVALID');
  });

  it('whose source is shorter or longer than it should be is an error of ours', async () => {
    expect((await push({ [START]: here() }, { bytes: BYTES.subarray(1) })).result).toBe('OCI_BLOB_CORRUPT');
    expect((await push({ [START]: here() }, { bytes: Buffer.concat([BYTES, BYTES]) })).result).toBe(
      'OCI_BLOB_CORRUPT',
    );
  });

  it('is sent again from the start when the connection breaks or the server fails', async () => {
    const outcome = await push({
      [START]: here(),
      [`PUT ${UPLOADS}1`]: [{ status: 503, headers: { 'retry-after': '4' } }, { status: 201 }],
    });
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0, 0], slept: [4000] });
    const failing = await push({ [START]: here(), [`PUT ${UPLOADS}1`]: { status: 503 } });
    expect(failing.result).toBe('REGISTRY_BUSY');
    expect(failing.opened.length).toBeLessThanOrEqual(6);
  });

  it('survives a token that ends under way, refused before its body was read', async () => {
    let issued = 0;
    const challenge = (host: string | undefined): Reply => ({
      status: 401,
      headers: { 'www-authenticate': `Bearer realm="http://${host}/token",service="s"` },
    });
    const outcome = await push(
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
    const outcome = await push({
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

  it('moves no byte where the registry agrees', async () => {
    const outcome = await push({ [START]: { status: 201 } }, MOUNT);
    expect(outcome).toMatchObject({ result: 'mounted', opened: [] });
    expect(outcome.lines[1]).toBe(`${START}?mount=D&from=lib/base`);
  });

  it('goes on with the upload that was opened instead', async () => {
    const outcome = await push({ [START]: here() }, MOUNT);
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0] });
    expect(sent(outcome, 'POST')).toHaveLength(1);
  });

  it.each([400, 401, 403, 404, 405])(
    'refused with %i is an upload, and the token stays good',
    async (status) => {
      let tokens = 0;
      const outcome = await push(
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

  it('is an upload where the token server refuses the source', async () => {
    const outcome = await push(
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

  it('asks for the source where rules put it, and not at all across hosts', async () => {
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

describe('chunks', () => {
  /** A registry that keeps count, and may fail at a given request. */
  function counting(
    more: {
      readonly fail?: (asked: Asked, count: number) => Reply | undefined;
      readonly limit?: number;
      readonly start?: Record<string, string>;
    } = {},
  ) {
    const state = { bytes: Buffer.alloc(0), count: 0 };
    const take = (asked: Asked): Reply => {
      state.count += 1;
      const failed = more.fail?.(asked, state.count);
      if (failed !== undefined) return failed;
      if (more.limit !== undefined && asked.body.length > more.limit) return { status: 413 };
      const start = Number(asked.headers['content-range']?.split('-')[0] ?? state.bytes.length);
      if (start !== state.bytes.length) return { status: 416 };
      state.bytes = Buffer.concat([state.bytes, asked.body]);
      return asked.method === 'PUT'
        ? { status: 201 }
        : here(`${UPLOADS}1?n=${state.count}`, { range: `0-${state.bytes.length - 1}` });
    };
    const rules: Rules = {
      [START]: () => {
        state.bytes = Buffer.alloc(0);
        return here(`${UPLOADS}1`, more.start ?? {});
      },
      [`PATCH ${UPLOADS}1`]: take,
      [`PUT ${UPLOADS}1`]: take,
      [`GET ${UPLOADS}1`]: () => ({
        status: 204,
        headers: { location: `${UPLOADS}1`, range: `0-${Math.max(state.bytes.length - 1, 0)}` },
      }),
    };
    return { rules, state };
  }
  const client = { chunkSize: CHUNK };

  it('follow each new location, the last one with the closing request', async () => {
    const { rules, state } = counting();
    const outcome = await push(rules, { client });
    expect(outcome.result).toBe('uploaded');
    expect(state.bytes.equals(BYTES)).toBe(true);
    expect(outcome.opened).toEqual([0]);
    expect(outcome.lines.slice(2)).toEqual([
      `PATCH ${UPLOADS}1`,
      `PATCH ${UPLOADS}1?n=1`,
      `PUT ${UPLOADS}1?n=2&digest=D`,
    ]);
    expect(
      [...sent(outcome, 'PATCH'), ...sent(outcome, 'PUT')].map((entry) => entry.headers['content-range']),
    ).toEqual(['0-131071', '131072-262143', '262144-299999']);
    expect(sent(outcome, 'PUT')[0]?.body.length).toBeGreaterThan(0);
  });

  it('are as large as the registry wants them at least', async () => {
    const { rules } = counting({ start: { 'oci-chunk-min-length': '200000' } });
    const outcome = await push(rules, { client });
    expect(sent(outcome, 'PATCH').map((entry) => entry.body.length)).toEqual([200_000]);
  });

  it('are used where a registry refuses the whole, and get smaller where it refuses them', async () => {
    const { rules, state } = counting({ limit: 100_000 });
    const outcome = await push(rules, { client });
    expect(outcome.result).toBe('uploaded');
    expect(state.bytes.equals(BYTES)).toBe(true);
    const whole = await push(counting({ limit: 100_000 }).rules, { blob: { ...BLOB } });
    expect(['uploaded', 'REGISTRY_REFUSED']).toContain(whole.result);
  });

  it('go on after one that got through though its answer was lost', async () => {
    let lost = false;
    const inner = counting();
    const patch = inner.rules[`PATCH ${UPLOADS}1`] as (asked: Asked) => Reply;
    const outcome = await push(
      {
        ...inner.rules,
        [`PATCH ${UPLOADS}1`]: (asked) => {
          const answer = patch(asked);
          if (lost) return answer;
          lost = true;
          return { status: 502 };
        },
      },
      { client },
    );
    expect(outcome.result).toBe('uploaded');
    expect(inner.state.bytes.equals(BYTES)).toBe(true);
  });

  it('go on where only a part of one was taken', async () => {
    const state = { bytes: Buffer.alloc(0) };
    const outcome = await push(
      {
        [START]: here(),
        [`PATCH ${UPLOADS}1`]: (asked) => {
          state.bytes = Buffer.concat([state.bytes, asked.body.subarray(0, 50_000)]);
          return here(`${UPLOADS}1`, { range: `0-${state.bytes.length - 1}` });
        },
        [`PUT ${UPLOADS}1`]: (asked) => {
          state.bytes = Buffer.concat([state.bytes, asked.body]);
          return { status: 201 };
        },
      },
      { client },
    );
    expect(outcome.result).toBe('uploaded');
    expect(state.bytes.equals(BYTES)).toBe(true);
  });

  it('start over where the registry has forgotten them', async () => {
    let forgot = false;
    const { rules, state } = counting({
      fail: (_, count) => {
        if (count !== 2 || forgot) return undefined;
        forgot = true;
        state.bytes = Buffer.alloc(0);
        return { status: 416 };
      },
    });
    const outcome = await push(rules, { client });
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0, 0] });
    expect(state.bytes.equals(BYTES)).toBe(true);
  });

  it('whose registry never agrees on how far they are end in an error', async () => {
    let end = 1000;
    const outcome = await push(
      {
        [START]: here(),
        [`PATCH ${UPLOADS}1`]: { status: 416 },
        [`GET ${UPLOADS}1`]: () => ({ status: 204, headers: { range: `0-${end++}` } }),
      },
      { client: { chunkSize: 200_000 } },
    );
    expect(outcome.result).toBe('REGISTRY_REFUSED');
    expect(outcome.asked.length).toBeLessThan(40);
  });

  it('that are never taken end in an error', async () => {
    const outcome = await push(
      {
        [START]: here(),
        [`PATCH ${UPLOADS}1`]: { status: 416 },
        [`GET ${UPLOADS}1`]: { status: 204, headers: { range: '0-0' } },
      },
      { client },
    );
    expect(outcome.result).toBe('REGISTRY_REFUSED');
    expect(outcome.asked.length).toBeLessThan(20);
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

  it('asks with GET where HEAD is not known', async () => {
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
