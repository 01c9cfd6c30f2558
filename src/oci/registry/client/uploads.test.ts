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

const SMALL = Buffer.from('a config');
const small = { bytes: SMALL, blob: { ...BLOB, digest: digestOf(SMALL), size: SMALL.length } };
const other = Buffer.from('another');

describe('a small blob', () => {
  it('R64 goes with the opening request where the registry takes it so', async () => {
    const outcome = await pushBlob({ [START]: { status: 201 } }, small);
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0] });
    expect(outcome.lines).toEqual(['HEAD /v2/team/app/blobs/D', `${START}?digest=D`]);
    expect(outcome.asked.at(-1)?.body.equals(SMALL)).toBe(true);
    expect(outcome.asked.at(-1)?.headers['content-length']).toBe(String(SMALL.length));
    expect((await pushBlob({ [START]: here() })).lines).toContain(START);
  });

  it('R65 goes to the session that the registry opened instead, read once, and the next one goes there first', async () => {
    const outcome = await pushBlob({ [START]: here() }, { ...small, before: [other] });
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0] });
    expect(outcome.lines).toEqual(['HEAD /v2/team/app/blobs/D', START, `PUT ${UPLOADS}1?digest=D`]);
    const first = await pushBlob({ [START]: here() }, small);
    expect(first).toMatchObject({ result: 'uploaded', opened: [0] });
    expect(first.lines.slice(1)).toEqual([`${START}?digest=D`, `PUT ${UPLOADS}1?digest=D`]);
    expect(first.asked.at(-1)?.body.equals(SMALL)).toBe(true);
  });

  it.each([400, 404, 405, 413, 415, 500])('R66 refused so with %i goes up as any other', async (status) => {
    const outcome = await pushBlob(
      { [START]: (asked) => (asked.query.has('digest') ? { status } : here()) },
      small,
    );
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0], slept: [] });
    expect(outcome.lines.slice(1)).toEqual([`${START}?digest=D`, START, `PUT ${UPLOADS}1?digest=D`]);
  });
});

describe('an upload that broke', () => {
  /** Takes the first `take` bytes of the first PUT and breaks; then says so. */
  const breaking = (take: number, more: Rules = {}): { rules: Rules; got: () => Uint8Array } => {
    let got: Uint8Array = Buffer.alloc(0);
    const rules: Rules = {
      [START]: here(),
      [`PUT ${UPLOADS}1`]: (asked): Reply => {
        got = asked.body.subarray(0, take);
        return { body: 'xx', cutAfter: 1 };
      },
      [`GET ${UPLOADS}1`]: { status: 204, headers: { location: `${UPLOADS}2?s=1`, range: `0-${take - 1}` } },
      [`PUT ${UPLOADS}2`]: (asked) => {
        got = Buffer.concat([got, asked.body]);
        return { status: 201 };
      },
      [`DELETE ${UPLOADS}2`]: { status: 204 },
      ...more,
    };
    return { rules, got: () => got };
  };

  /** 503 as if the connection had broken in the middle. */
  const failing = (take: number, more: Rules = {}): ReturnType<typeof breaking> => {
    const scripted = breaking(take, more);
    const first = scripted.rules[`PUT ${UPLOADS}1`] as (asked: unknown) => Reply;
    return {
      ...scripted,
      rules: {
        ...scripted.rules,
        [`PUT ${UPLOADS}1`]: (asked) => {
          first(asked);
          return { status: 503 };
        },
      },
    };
  };

  it('R77 goes on where the registry says it is', async () => {
    const { rules, got } = failing(120_000);
    const outcome = await pushBlob(rules);
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0, 120_000] });
    expect(BYTES.equals(got())).toBe(true);
    const rest = sent(outcome, 'PUT')[1];
    expect(rest?.url).toBe(`${UPLOADS}2?s=1&digest=${encodeURIComponent(BLOB.digest)}`);
    expect(rest?.headers).toMatchObject({
      'content-range': '120000-299999',
      'content-length': '180000',
    });
  });

  it('R77 goes on after a broken connection too', async () => {
    const scripted = failing(100_000);
    let broke = false;
    const outcome = await pushBlob(
      {
        ...scripted.rules,
        [`GET ${UPLOADS}1`]: { status: 204, headers: { location: `${UPLOADS}2`, range: '0-0' } },
      },
      {
        scripted: {
          breakAt: (request) => {
            const now = !broke && request.method === 'PUT';
            broke ||= now;
            return now ? 100_000 : undefined;
          },
        },
      },
    );
    expect(outcome.result).toBe('uploaded');
    // "0-0" may be nothing at all.
    expect(outcome.opened).toEqual([0, 0]);
    expect(sent(outcome, 'PUT').at(-1)?.headers['content-range']).toBeUndefined();
  });

  it('R77 is not guessed at where the registry does not say how far it is', async () => {
    for (const headers of [{}, { range: 'bytes 7-9' }, { range: '0-999999' }, { range: '5-9' }]) {
      const { rules } = failing(0, {
        [`GET ${UPLOADS}1`]: { status: 204, headers: { location: `${UPLOADS}2`, ...headers } },
      });
      expect(await pushBlob(rules)).toMatchObject({ result: 'uploaded', opened: [0, 0] });
    }
  });

  it('R79 is sent anew, once, where what it was continued with is refused', async () => {
    let begun = 0;
    const { rules } = failing(120_000, {
      [START]: () => here(++begun === 1 ? `${UPLOADS}1` : `${UPLOADS}3`),
      [`PUT ${UPLOADS}2`]: { status: 400, body: '{"errors":[{"code":"DIGEST_INVALID"}]}' },
      [`PUT ${UPLOADS}3`]: { status: 201 },
    });
    const outcome = await pushBlob(rules);
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0, 120_000, 0] });
    expect(outcome.asked.at(-1)?.body.equals(BYTES)).toBe(true);
    const never = failing(120_000, {
      [`PUT ${UPLOADS}2`]: { status: 400 },
    });
    const failed = await pushBlob(never.rules);
    expect(failed.result).toBe('REGISTRY_REFUSED');
    expect(sent(failed, 'POST')).toHaveLength(2);
  });

  it('R81 or one whose source never ends is not sent beyond its size', async () => {
    await using registry = await scriptedRegistry({ [START]: here(), [`PUT ${UPLOADS}1`]: { status: 201 } });
    await using asked = asking();
    let given = 0;
    const endless = async function* (): AsyncGenerator<Uint8Array> {
      for (; given < 100; given += 1) yield BYTES;
    };
    for (const blob of [BLOB, { ...BLOB, size: 10 }]) {
      given = 0;
      const push = asked.client.putBlob(asked.at(registry.host), blob, endless, asked.options);
      expect(await codeOf(push)).toBe('OCI_BLOB_CORRUPT');
      expect(given).toBeLessThan(3);
    }
  });

  it('R80 and is given up is deleted, one that went through is not', async () => {
    const outcome = await pushBlob({
      [START]: here(`${UPLOADS}1?s=2`),
      [`PUT ${UPLOADS}1`]: { status: 400 },
    });
    expect(outcome.result).toBe('REGISTRY_REFUSED');
    expect(outcome.lines.at(-1)).toBe(`DELETE ${UPLOADS}1?s=2`);
    expect(sent(await pushBlob({ [START]: here() }), 'DELETE')).toEqual([]);
  });

  it('R80 is never deleted on storage elsewhere', async () => {
    await using storage = await scriptedRegistry({ 'PUT /s': { status: 400 } });
    await pushBlob({ [START]: here(`http://${storage.host}/s`) });
    expect(storage.asked.map((entry) => entry.method)).toEqual(['PUT']);
  });
});

describe('mounting', () => {
  /** The registry wants a token for each scope of the challenge, and its token server refuses the source. */
  const rules = (): { rules: Rules; asked: string[][] } => {
    const scopes: string[][] = [];
    const challenge = (host: string | undefined, scope: string): Reply => ({
      status: 401,
      headers: { 'www-authenticate': `Bearer realm="http://${host}/token",service="s",scope="${scope}"` },
    });
    return {
      asked: scopes,
      rules: {
        'GET /v2/': (asked) => challenge(asked.headers.host, ''),
        'GET /token': (asked) => {
          scopes.push(asked.query.getAll('scope'));
          return { body: JSON.stringify({ token: `t${scopes.length}` }) };
        },
        [START]: (asked) =>
          asked.query.has('mount') ? challenge(asked.headers.host, 'repository:lib/base:pull') : here(),
      },
    };
  };

  it('R86 R131 refused with a challenge leaves no mark: the upload asks for its own scope', async () => {
    const scripted = rules();
    const outcome = await pushBlob(scripted.rules, { mountFrom: 'lib/base', bytes: BYTES });
    expect(outcome).toMatchObject({ result: 'uploaded', slept: [] });
    expect(sent(outcome, 'POST').map((entry) => entry.headers.authorization)).toEqual([
      'Bearer t2',
      'Bearer t2',
    ]);
    expect(sent(outcome, 'PUT')[0]?.headers.authorization).toBe('Bearer t2');
    expect(scripted.asked).toHaveLength(2);
  });

  it('R133 asks for a token that may pull from the source', async () => {
    const scripted = rules();
    await pushBlob(scripted.rules, { mountFrom: 'lib/base' });
    expect(scripted.asked[1]).toEqual(['repository:team/app:pull,push', 'repository:lib/base:pull']);
  });
});

describe('sha512', () => {
  it('R88 is named when an upload is opened, and where it ends', async () => {
    const digest = digestOf(BYTES, 'sha512');
    const outcome = await pushBlob({ [START]: here() }, { blob: { ...BLOB, digest } });
    expect(outcome.result).toBe('uploaded');
    expect(outcome.lines).toEqual([
      'HEAD /v2/team/app/blobs/D',
      `${START}?digest-algorithm=sha512`,
      `PUT ${UPLOADS}1?digest=D`,
    ]);
    const wrong = await pushBlob(
      {
        [START]: here(),
        [`PUT ${UPLOADS}1`]: { status: 201, headers: { 'docker-content-digest': digestOf('x', 'sha512') } },
      },
      { blob: { ...BLOB, digest } },
    );
    expect(wrong.result).toBe('REGISTRY_ANSWER_INVALID');
  });
});
