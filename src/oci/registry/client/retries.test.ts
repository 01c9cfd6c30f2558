import { describe, expect, it } from 'vitest';
import type { RegistryRule } from '../../../settings/index.ts';
import { asking, codeOf, type Reply, scriptedRegistry } from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';

const BODY = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
const TYPE = 'application/vnd.oci.image.manifest.v1+json';
const DIGEST = digestOf(BODY);
const good: Reply = { headers: { 'content-type': TYPE, 'docker-content-digest': DIGEST }, body: BODY };
const KEY = 'GET /v2/team/app/manifests/1';
const at = (path: string): string => `GET /v2/team/app/${path}`;

describe('retries', () => {
  it.each([
    ['seconds', [{ status: 429, headers: { 'retry-after': '7' } }], [7000]],
    ['a date', [{ status: 429, headers: { 'retry-after': 'Thu, 01 Jan 2026 00:00:09 GMT' } }], [9000]],
    [
      'text',
      [
        {
          status: 429,
          body: '{"errors":[{"code":"TOOMANYREQUESTS","message":"retry-after: 1.5s, allowed: 1/s"}]}',
        },
      ],
      [1500],
    ],
    [
      'plain text with a unit of its own',
      [{ status: 429, body: 'toomanyrequests: retry-after: 1903.374\u00b5s, allowed: 44000/minute' }],
      [187.5],
    ],
    [
      'plain text with another status',
      [{ status: 403, body: 'toomanyrequests: retry-after: 2m1.5s, allowed: 44000/minute' }],
      [121_500],
    ],
    [
      'a date that is over',
      [{ status: 503, headers: { 'retry-after': 'Thu, 01 Jan 2015 00:00:00 GMT' } }],
      [187.5],
    ],
    ['nothing that can be read', [{ status: 429, headers: { 'retry-after': 'soon' } }], [187.5]],
    ['only a code', [{ status: 403, body: '{"errors":[{"code":"TOOMANYREQUESTS"}]}' }], [187.5]],
    [
      'server errors',
      [{ status: 500 }, { status: 502 }, { status: 503 }, { status: 504 }],
      [187.5, 375, 750, 1500],
    ],
    ['a broken connection', [{ ...good, cutAfter: 5 }], [187.5]],
  ] as const)('R101 R134 R136 wait as %s says', async (_, replies, slept) => {
    await using registry = await scriptedRegistry({ [KEY]: [...(replies as readonly Reply[]), good] });
    await using asked = asking({ retry: { deadlineMs: 300_000 } });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(asked.clock.slept).toEqual(slept);
    expect(asked.events.filter((event) => event.type === 'registry.retry')).toHaveLength(slept.length);
  });

  it('R102 R134 end: after some tries, and at once where the wait would pass the deadline', async () => {
    await using registry = await scriptedRegistry({
      [KEY]: { status: 503 },
      [at('manifests/2')]: { status: 429, headers: { 'retry-after': '86400' } },
    });
    await using asked = asking();
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_BUSY',
    );
    expect(registry.lines()).toHaveLength(6);
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host, 'team/app:2'), asked.options))).toBe(
      'REGISTRY_BUSY',
    );
    expect(registry.lines()).toHaveLength(7);
  });

  it('R102 come at a time of their own, between half and all of a wait that doubles up to 15 s', async () => {
    for (const [random, first, last] of [
      [0, 125, 7_500],
      [0.999_999, 250, 15_000],
    ] as const) {
      await using registry = await scriptedRegistry({ [KEY]: { status: 503 } });
      await using asked = asking({ random: () => random, retry: { attempts: 9 } });
      await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options));
      expect(asked.clock.slept.map(Math.round)[0]).toBe(first);
      expect(asked.clock.slept.map(Math.round).at(-1)).toBe(last);
    }
  });

  it('R102 do not happen for what stays refused', async () => {
    await using registry = await scriptedRegistry({ [KEY]: { status: 400 } });
    await using asked = asking();
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_REFUSED',
    );
    expect(registry.lines()).toHaveLength(1);
  });

  it('stop at the signal', async () => {
    await using registry = await scriptedRegistry({ [KEY]: { status: 503 } });
    const stop = new AbortController();
    await using asked = asking();
    const reason = new Error('enough');
    const options = { signal: stop.signal, emit: () => stop.abort(reason) };
    await expect(asked.client.getManifest(asked.at(registry.host), options)).rejects.toBe(reason);
  });

  it('of a host that is not there are few', async () => {
    await using asked = asking();
    expect(await codeOf(asked.client.getManifest(asked.at('127.0.0.1:1'), asked.options))).toBe(
      'REGISTRY_UNREACHABLE',
    );
    expect(asked.clock.slept.length).toBeLessThan(3);
    expect(await codeOf(asked.client.getManifest(asked.at('registry.invalid'), asked.options))).toBe(
      'REGISTRY_UNREACHABLE',
    );
  });
});

describe('rules', () => {
  it('ask the mirror first and the registry where it fails, and write past it', async () => {
    await using mirror = await scriptedRegistry({
      [KEY]: [good, { status: 500 }],
      'HEAD /v2/team/app/manifests/9': { status: 404 },
    });
    await using registry = await scriptedRegistry({
      [KEY]: good,
      'HEAD /v2/team/app/manifests/9': good,
      [`DELETE /v2/team/app/manifests/${DIGEST}`]: { status: 202 },
    });
    const rules: RegistryRule[] = [
      {
        prefix: 'hub.test',
        location: registry.host,
        mirrors: [{ location: mirror.host, insecure: false }],
        insecure: false,
        blocked: false,
      },
    ];
    await using asked = asking({ rules, retry: { attempts: 1 } });
    const get = () => asked.client.getManifest(asked.at('hub.test'), asked.options);
    await get();
    expect(registry.lines()).toEqual([]);
    await get();
    expect(registry.lines()).toEqual([KEY]);
    expect(asked.events).toContainEqual(
      expect.objectContaining({ type: 'registry.warning', registry: mirror.host }),
    );
    expect(await asked.client.headManifest(asked.at('hub.test', 'team/app:9'), asked.options)).toBeDefined();
    await asked.client.deleteManifest(asked.at('hub.test', `team/app@${DIGEST}`), asked.options);
    expect(mirror.lines().some((line) => line.startsWith('DELETE'))).toBe(false);
  });

  it('name the image as the user knows it, not the address', async () => {
    await using registry = await scriptedRegistry({});
    const rules: RegistryRule[] = [
      { prefix: 'hub.test', location: `${registry.host}/deep`, mirrors: [], insecure: false, blocked: false },
    ];
    await using asked = asking({ rules });
    await expect(asked.client.getManifest(asked.at('hub.test'), asked.options)).rejects.toThrow(
      'hub.test/team/app:1: ',
    );
    expect(registry.lines()).toEqual(['GET /v2/deep/team/app/manifests/1']);
  });
});
