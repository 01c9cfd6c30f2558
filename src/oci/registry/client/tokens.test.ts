import { describe, expect, it } from 'vitest';
import {
  asking,
  codeOf,
  collect,
  type Reply,
  type Script,
  scriptedRegistry,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import { covers, mergeScopes } from './scope.ts';

const MANIFEST = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
const manifest: Reply = {
  headers: { 'content-type': 'application/vnd.oci.image.manifest.v1+json' },
  body: MANIFEST,
};
const bearer = (realm: string): Reply => ({
  status: 401,
  headers: { 'www-authenticate': `Bearer realm="${realm}",service="reg"` },
});
const token = (text: string): Reply => ({ body: JSON.stringify({ token: text, expires_in: 300 }) });

describe('challenges', () => {
  it('R4 prefers bearer in any order, passes over what is unknown, and says so where there is nothing else', async () => {
    for (const before of [true, false]) {
      const { host, ...registry } = await scriptedRegistry({
        '* /token': token('t'),
        'GET /v2/team/app/manifests/1': ({ headers }) => {
          if (headers.authorization === 'Bearer t') return manifest;
          const ours = `Bearer realm="http://${host}/token"`;
          const others = ['Negotiate', 'Basic realm="b"', 'Bearer error="no_realm"'];
          return {
            status: 401,
            headers: { 'www-authenticate': before ? [ours, ...others] : [...others, ours] },
          };
        },
      });
      await using _closing = registry;
      await using asked = asking({
        credentials: async () => ({ kind: 'basic', username: 'u', password: 'p' }),
      });
      await asked.client.getManifest(asked.at(host), asked.options);
      expect(registry.lines().filter((line) => line.includes('/token'))).toHaveLength(1);
    }
    await using strange = await scriptedRegistry({
      'GET /v2/team/app/manifests/1': { status: 401, headers: { 'www-authenticate': 'Negotiate, NTLM' } },
    });
    await using asked = asking();
    await expect(asked.client.getManifest(asked.at(strange.host), asked.options)).rejects.toMatchObject({
      code: 'REGISTRY_AUTH_INVALID',
      message: expect.stringContaining('negotiate, ntlm') as string,
    });
  });

  it('R5 what one repository was told to ask for is not asked for another', async () => {
    let host = '';
    const guard: Script = ({ headers, path }) => {
      const name = path.split('/')[2] ?? '';
      if (headers.authorization === `Bearer ${name}`) return manifest;
      const challenge = `Bearer realm="http://${host}/token",scope="repository:${name}/app:pull repository:${name}/base:pull"`;
      return { status: 401, headers: { 'www-authenticate': challenge } };
    };
    await using registry = await scriptedRegistry({
      'GET /v2/one/app/manifests/1': guard,
      'GET /v2/two/app/manifests/1': guard,
      'GET /token': ({ query }) => token(query.get('scope')?.split(/[:/]/)[1] ?? ''),
    });
    host = registry.host;
    await using asked = asking();
    for (const name of ['one', 'two'])
      await asked.client.getManifest(asked.at(host, `${name}/app:1`), asked.options);
    const scopes = registry.asked
      .filter(({ path }) => path === '/token')
      .map(({ query }) => query.getAll('scope'));
    expect(scopes[0]).toEqual(['repository:one/app:pull', 'repository:one/base:pull']);
    expect(
      scopes
        .slice(1)
        .flat()
        .filter((scope) => scope.includes('one/')),
    ).toEqual([]);
  });
});

describe('scopes', () => {
  it('R12 end in their actions, behind the last colon', () => {
    const granted = new Set(['repository:cache.test:5000/a/b:push,pull']);
    expect(covers(granted, 'repository:cache.test:5000/a/b:pull')).toBe(true);
    expect(covers(granted, 'repository:cache.test:5000/a/b:delete')).toBe(false);
    expect(covers(granted, 'repository:cache.test:5000/a:pull')).toBe(false);
    expect(covers(new Set(['repository:a/b:pull']), 'repository:a/b:pull,push')).toBe(false);
    expect(mergeScopes(['repository:a:pull,push'], 'repository:a:pull registry:catalog:*')).toEqual([
      'repository:a:pull,push',
      'registry:catalog:*',
    ]);
  });
});

describe('tokens', () => {
  it('R10 are for one registry and one repository, though one server gives them', async () => {
    await using tokens = await scriptedRegistry({
      'GET /token': ({ query }) =>
        token(`${query.get('service')}-${query.get('scope')}`.replaceAll(/[:/,]/g, '.')),
    });
    const guard =
      (service: string): Script =>
      ({ headers, path }) => {
        const [, , one, two] = path.split('/');
        if (headers.authorization === `Bearer ${service}-repository.${one}.${two}.pull`) return manifest;
        const challenge = `Bearer realm="http://${tokens.host}/token",service="${service}"`;
        return { status: 401, headers: { 'www-authenticate': challenge } };
      };
    const rules = (service: string): Record<string, Script> => ({
      'GET /v2/': guard(service),
      'GET /v2/team/app/manifests/1': guard(service),
      'GET /v2/team/tool/manifests/1': guard(service),
    });
    await using first = await scriptedRegistry(rules('first'));
    await using second = await scriptedRegistry(rules('second'));
    await using asked = asking();
    for (const host of [first.host, second.host, first.host]) {
      for (const rest of ['team/app:1', 'team/tool:1'])
        await asked.client.getManifest(asked.at(host, rest), asked.options);
    }
    expect(tokens.asked).toHaveLength(4);
    const sent = [first, second].map((registry) =>
      registry.asked.flatMap(({ path, headers }) => (path === '/v2/' ? [] : [headers.authorization])),
    );
    expect(sent[0]?.every((value) => value?.startsWith('Bearer first-'))).toBe(true);
    expect(sent[1]?.every((value) => value?.startsWith('Bearer second-'))).toBe(true);
  });

  it('R13 with fewer grants than asked for are used; what the registry says then is final', async () => {
    let host = '';
    const needs =
      (grant: string): Script =>
      ({ headers }) =>
        headers.authorization === `Bearer ${grant}` ? manifest : bearer(`http://${host}/token`);
    await using registry = await scriptedRegistry({
      'GET /v2/': () => bearer(`http://${host}/token`),
      'GET /v2/team/app/manifests/1': needs('pull-only'),
      'PUT /v2/team/app/manifests/1': needs('push'),
      'GET /token': { body: JSON.stringify({ token: 'pull-only', scope: 'repository:team/app:pull' }) },
    });
    host = registry.host;
    await using asked = asking();
    const bytes = Buffer.from(MANIFEST);
    const descriptor = {
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest: digestOf(bytes),
      size: bytes.length,
    };
    const put = asked.client.putManifest(asked.at(host), { descriptor, bytes }, asked.options);
    expect(await codeOf(put)).toBe('REGISTRY_UNAUTHORIZED');
    expect(registry.asked.filter(({ path }) => path === '/token')).toHaveLength(2);
    await asked.client.getManifest(asked.at(host), asked.options);
  });

  it('R14 that end in the middle of a push are got anew, without the old one, and the push ends well', async () => {
    let host = '';
    let issued = 0;
    let oldest = 1;
    const stored: Buffer[] = [];
    const guard =
      (then: Script): Script =>
      (entry) =>
        Number(entry.headers.authorization?.replace('Bearer t', '') ?? 0) >= oldest
          ? then(entry)
          : bearer(`http://${host}/token`);
    const up = (at: number): Reply => ({
      status: 202,
      headers: { location: `/v2/team/app/blobs/uploads/${at}` },
    });
    const content = Buffer.alloc(300_000, 'x');
    const digest = digestOf(content);
    await using registry = await scriptedRegistry({
      'GET /v2/': () => bearer(`http://${host}/token`),
      'GET /token': () => token(`t${++issued}`),
      [`HEAD /v2/team/app/blobs/${digest}`]: guard(() => ({ status: 404 })),
      'POST /v2/team/app/blobs/uploads/': guard(() => up(0)),
      'PATCH /v2/team/app/blobs/uploads/0': guard(({ body }) => {
        stored.push(body);
        oldest = issued + 1;
        return up(1);
      }),
      'PATCH /v2/team/app/blobs/uploads/1': guard(({ body }) => {
        stored.push(body);
        return up(2);
      }),
      'PUT /v2/team/app/blobs/uploads/2': guard(({ body }) => {
        stored.push(body);
        return { status: 201 };
      }),
    });
    host = registry.host;
    await using asked = asking({ chunkSize: 100_000 });
    const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
      yield content.subarray(offset);
    };
    const begin = asked.client.putBlob(
      asked.at(host),
      { mediaType: 'application/octet-stream', digest, size: content.length },
      source,
      asked.options,
    );
    expect(await begin).toBe('uploaded');
    const tokens = registry.asked.filter(({ path }) => path === '/token');
    // For looking, for writing, and instead of the one that ended.
    expect(tokens.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined, undefined]);
    expect(Buffer.concat(stored).equals(content)).toBe(true);
  });

  it('R15 for a mount may push to the target, first, and pull from the source', async () => {
    let host = '';
    const content = Buffer.from('layer');
    const digest = digestOf(content);
    await using registry = await scriptedRegistry({
      'GET /v2/': () => bearer(`http://${host}/token`),
      'GET /token': ({ query }) => token(query.getAll('scope').join('+').replaceAll(/[:/,]/g, '.')),
      [`HEAD /v2/team/app/blobs/${digest}`]: { status: 404 },
      'POST /v2/team/app/blobs/uploads/': ({ headers }) =>
        headers.authorization === 'Bearer repository.team.app.pull.push+repository.team.base.pull'
          ? { status: 201 }
          : bearer(`http://${host}/token`),
    });
    host = registry.host;
    await using asked = asking();
    const source = async function* (): AsyncGenerator<Uint8Array> {
      yield content;
    };
    const blob = { mediaType: 'application/octet-stream', digest, size: content.length };
    const options = { ...asked.options, mountFrom: 'team/base' };
    expect(await asked.client.putBlob(asked.at(host), blob, source, options)).toBe('mounted');
  });

  it('R19 a refresh token that comes back takes the place of the one that was sent, and none is asked for', async () => {
    let host = '';
    let current = 'refresh-0';
    let issued = 0;
    await using registry = await scriptedRegistry({
      'GET /v2/': () => bearer(`http://${host}/token`),
      'GET /v2/team/app/manifests/1': ({ headers }) =>
        headers.authorization === `Bearer t${issued}` ? manifest : bearer(`http://${host}/token`),
      'POST /token': ({ body }) => {
        const form = new URLSearchParams(body.toString());
        if (form.get('refresh_token') !== current) return { status: 400, body: '{"error":"invalid_grant"}' };
        issued += 1;
        current = `refresh-${issued}`;
        return {
          body: JSON.stringify({ access_token: `t${issued}`, refresh_token: current, expires_in: 60 }),
        };
      },
    });
    host = registry.host;
    await using asked = asking({ credentials: async () => ({ kind: 'identity-token', token: 'refresh-0' }) });
    for (const _ of [1, 2, 3]) {
      await asked.client.getManifest(asked.at(host), asked.options);
      asked.clock.advance(60_000);
    }
    expect(issued).toBe(3);
    const forms = registry.asked.filter(({ path }) => path === '/token').map(({ body }) => body.toString());
    expect(forms.join()).not.toMatch(/offline/);
    // Another client knows nothing of it, and says what to do.
    await using late = asking({ credentials: async () => ({ kind: 'identity-token', token: 'refresh-0' }) });
    await expect(late.client.getManifest(late.at(host), late.options)).rejects.toMatchObject({
      code: 'REGISTRY_UNAUTHORIZED',
      hint: `check the credentials with: skycap login ${host}`,
    });
  });

  it('R9 R19 eight blobs at once cost one exchange, and one more when it ends; eight scopes trade one after another', async () => {
    let host = '';
    let current = 'refresh-0';
    const issued: string[] = [];
    const valid = new Map<string, string>();
    const guard: Script = ({ headers, path }) => {
      const name = path.split('/').slice(2, 4).join('/');
      const granted = valid.get(headers.authorization ?? '') ?? '';
      return granted.includes(`repository:${name}:pull`) ? { body: 'blob' } : bearer(`http://${host}/token`);
    };
    await using registry = await scriptedRegistry({
      'GET /v2/': () => bearer(`http://${host}/token`),
      'POST /token': ({ body }) => {
        const form = new URLSearchParams(body.toString());
        // Spent by another exchange: a real server ends the whole family of tokens here.
        if (form.get('refresh_token') !== current) return { status: 400, body: '{"error":"invalid_grant"}' };
        issued.push(form.get('scope') ?? '');
        current = `refresh-${issued.length}`;
        valid.set(`Bearer t${issued.length}`, form.get('scope') ?? '');
        return {
          body: JSON.stringify({
            access_token: `t${issued.length}`,
            refresh_token: current,
            expires_in: 60,
          }),
        };
      },
      '*': guard,
    });
    host = registry.host;
    await using asked = asking({ credentials: async () => ({ kind: 'identity-token', token: 'refresh-0' }) });
    const blob = { mediaType: 'x', digest: digestOf('blob'), size: 4 };
    const eight = async (repository: (index: number) => string): Promise<void> => {
      const reading = Array.from({ length: 8 }, async (_, index) => {
        const from = asked.at(host, `${repository(index)}:1`);
        return (await collect(await asked.client.getBlob(from, blob, 0, asked.options))).toString();
      });
      expect(new Set(await Promise.all(reading))).toEqual(new Set(['blob']));
    };
    await eight(() => 'team/app');
    expect(issued).toHaveLength(1);
    asked.clock.advance(60_000);
    await eight(() => 'team/app');
    expect(issued).toHaveLength(2);
    // Ended before its time, and refused eight times over.
    valid.clear();
    await eight(() => 'team/app');
    expect(issued).toHaveLength(3);
    await eight((index) => `team/app-${index}`);
    expect(issued).toHaveLength(11);
  });

  it('R24 that are refused say by whom, for which registry, how to log in there, and no secret', async () => {
    const secret = 'hunter2';
    for (const status of [400, 401, 403]) {
      const body = JSON.stringify({ error: 'invalid_grant', error_description: 'no' });
      await using tokens = await scriptedRegistry({ '* /token': { status, body } });
      await using registry = await scriptedRegistry({
        'GET /v2/team/app/manifests/1': bearer(`http://${tokens.host}/token?x=${secret}`),
      });
      for (const credential of [
        { kind: 'basic', username: 'u', password: secret },
        { kind: 'identity-token', token: secret },
      ] as const) {
        await using asked = asking({ credentials: async () => credential });
        const failure = asked.client.getManifest(asked.at(registry.host), asked.options);
        await expect(failure).rejects.toMatchObject({
          code: status === 403 ? 'REGISTRY_FORBIDDEN' : 'REGISTRY_UNAUTHORIZED',
          message: expect.stringContaining(`token for ${registry.host} from ${tokens.host}`) as string,
          hint: `check the credentials with: skycap login ${registry.host}`,
        });
        await expect(failure).rejects.not.toThrow(secret);
      }
    }
  });
});
