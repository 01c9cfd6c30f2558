import { describe, expect, it } from 'vitest';
import {
  type Asked,
  asking,
  codeOf,
  type Reply,
  type Script,
  scriptedRegistry,
  servedWorld,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import { parseReference } from '../../names/reference.ts';
import type { ManifestBytes } from '../../port.ts';
import { referrersTag } from './index.ts';

const INDEX = 'application/vnd.oci.image.index.v1+json';
const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const SUBJECT = digestOf('the subject');
const TAG = referrersTag(SUBJECT);
const config = { mediaType: 't/config', digest: digestOf('{}'), size: 2 };

function referring(more: object = {}): ManifestBytes {
  const body = {
    schemaVersion: 2,
    mediaType: IMAGE,
    config,
    layers: [],
    subject: { mediaType: IMAGE, digest: SUBJECT, size: 11 },
    ...more,
  };
  const bytes = Buffer.from(JSON.stringify(body));
  return { descriptor: { mediaType: body.mediaType, digest: digestOf(bytes), size: bytes.length }, bytes };
}

const path = (name: string): string => `/v2/team/app/manifests/${name}`;

interface World {
  /** What stands at the fallback tag. */
  list: { body: string; etag?: string } | undefined;
  readonly rules: Record<string, Reply | readonly Reply[] | Script>;
}

/** A registry that knows nothing of referrers: it keeps what is put at the fallback tag. */
function older(more: { readonly etag?: boolean; readonly rules?: World['rules'] } = {}): World {
  let version = 0;
  const world: World = {
    list: undefined,
    rules: {
      [`GET ${path(TAG)}`]: () =>
        world.list === undefined
          ? { status: 404 }
          : {
              headers: {
                'content-type': (JSON.parse(world.list.body) as { mediaType: string }).mediaType,
                ...(more.etag === true ? { etag: `"v${version}"` } : { etag: `W/"v${version}"` }),
              },
              body: world.list.body,
            },
      [`PUT ${path(TAG)}`]: (asked: Asked) => {
        const wanted = asked.headers['if-match'];
        if (wanted !== undefined && wanted !== `"v${version}"`) return { status: 412 };
        version += 1;
        world.list = { body: asked.body.toString() };
        return { status: 201 };
      },
      [`DELETE ${path(TAG)}`]: () => {
        world.list = undefined;
        return { status: 202 };
      },
      ...more.rules,
    },
  };
  return world;
}

const listOf = (world: World): readonly { digest: string }[] =>
  (JSON.parse(world.list?.body ?? '{"manifests":[]}') as { manifests: { digest: string }[] }).manifests;

async function put(
  world: World,
  manifests: readonly ManifestBytes[],
  more: { readonly together?: boolean; readonly tag?: string } = {},
): Promise<{ readonly code: string; readonly asked: readonly Asked[]; readonly slept: readonly number[] }> {
  const accepted = Object.fromEntries(
    manifests.map((manifest) => [`PUT ${path(manifest.descriptor.digest)}`, { status: 201 } as Reply]),
  );
  await using registry = await scriptedRegistry({ ...accepted, ...world.rules });
  await using asked = asking();
  const one = (manifest: ManifestBytes): Promise<void> =>
    asked.client.putManifest(
      parseReference(
        `${registry.host}/team/app${more.tag === undefined ? `@${manifest.descriptor.digest}` : `:${more.tag}`}`,
      ),
      manifest,
      asked.options,
    );
  const work = async (): Promise<void> => {
    if (more.together === true) await Promise.all(manifests.map(one));
    else for (const manifest of manifests) await one(manifest);
  };
  const code = await codeOf(work());
  return { code, asked: registry.asked, slept: asked.clock.slept };
}

describe('a manifest with a subject', () => {
  it('R92 is put on the list at the fallback tag where the registry does not take it on its own', async () => {
    const typed = referring({ artifactType: 't/sig', annotations: { k: 'v' } });
    const untyped = referring({ artifactType: '' });
    const nested = referring({ mediaType: INDEX, config: undefined, layers: undefined, manifests: [] });
    const world = older();
    const { code } = await put(world, [typed, untyped, nested]);
    expect(code).toBe('no error');
    expect(JSON.parse(world.list?.body ?? '')).toEqual({
      schemaVersion: 2,
      mediaType: INDEX,
      manifests: [
        { ...typed.descriptor, artifactType: 't/sig', annotations: { k: 'v' } },
        { ...untyped.descriptor, artifactType: 't/config' },
        nested.descriptor,
      ],
    });
  });

  it('R94 stays off that list where the registry says that it took it, and lists referrers, asked once', async () => {
    const [one, two] = [referring(), referring({ annotations: { n: '2' } })];
    const said: Reply = { status: 201, headers: { 'oci-subject': SUBJECT } };
    const world = older({
      rules: {
        [`PUT ${path(one.descriptor.digest)}`]: said,
        [`PUT ${path(two.descriptor.digest)}`]: said,
        [`GET /v2/team/app/referrers/${SUBJECT}`]: { headers: { 'content-type': INDEX }, body: '{}' },
      },
    });
    const { code, asked } = await put(world, [one, two]);
    expect(code).toBe('no error');
    expect(world.list).toBeUndefined();
    expect(asked.filter((entry) => entry.path.includes('/referrers/'))).toHaveLength(1);
    expect(asked.some((entry) => entry.path.endsWith(TAG))).toBe(false);
  });

  it('R94 R144 is put on it where the registry says that it took it and then lists none', async () => {
    const one = referring();
    for (const answer of [{ status: 404 }, { headers: { 'content-type': 'text/html' }, body: '<html>' }]) {
      const world = older({
        rules: {
          [`PUT ${path(one.descriptor.digest)}`]: { status: 201, headers: { 'oci-subject': SUBJECT } },
          [`GET /v2/team/app/referrers/${SUBJECT}`]: answer,
        },
      });
      await put(world, [one]);
      expect(listOf(world)).toHaveLength(1);
    }
    const world = older({
      rules: {
        [`PUT ${path(one.descriptor.digest)}`]: {
          status: 201,
          headers: { 'oci-subject': digestOf('another') },
        },
        [`GET /v2/team/app/referrers/${SUBJECT}`]: { headers: { 'content-type': INDEX }, body: '{}' },
      },
    });
    await put(world, [one]);
    expect(listOf(world)).toHaveLength(1);
  });

  it('R95 stands there once, beside what others have put there', async () => {
    const one = referring();
    const foreign = { mediaType: IMAGE, digest: digestOf('z'), size: 1, artifactType: 't/x', unknown: [1] };
    const world = older();
    world.list = {
      body: JSON.stringify({
        schemaVersion: 2,
        mediaType: INDEX,
        manifests: [foreign],
        annotations: { kept: 'yes' },
      }),
    };
    const { asked } = await put(world, [one, one]);
    expect(JSON.parse(world.list?.body ?? '')).toMatchObject({
      annotations: { kept: 'yes' },
      manifests: [foreign, { digest: one.descriptor.digest }],
    });
    expect(asked.filter((entry) => entry.method === 'PUT' && entry.path.endsWith(TAG))).toHaveLength(1);
  });

  it('R95 never takes the place of something else at that tag', async () => {
    const world = older();
    world.list = { body: JSON.stringify({ schemaVersion: 2, mediaType: IMAGE, config, layers: [] }) };
    const before = world.list;
    expect((await put(world, [referring()])).code).toBe('OCI_MANIFEST_INVALID');
    expect(world.list).toBe(before);
  });

  it('R96 is added anew to what another writer put there meanwhile, where the registry has strong ETags', async () => {
    const [one, other] = [referring(), referring({ annotations: { by: 'other' } })];
    const world = older({ etag: true });
    world.list = { body: JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [] }) };
    const keep = world.rules[`PUT ${path(TAG)}`] as Script;
    let raced = false;
    world.rules[`PUT ${path(TAG)}`] = (asked) => {
      if (!raced) {
        raced = true;
        const body = Buffer.from(
          JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [other.descriptor] }),
        );
        keep({ ...asked, body, headers: {} });
      }
      return keep(asked);
    };
    const { code, asked, slept } = await put(world, [one]);
    expect(code).toBe('no error');
    expect(listOf(world).map((item) => item.digest)).toEqual([
      other.descriptor.digest,
      one.descriptor.digest,
    ]);
    expect(slept).toHaveLength(1);
    expect(
      asked
        .filter((entry) => entry.path.endsWith(TAG) && entry.method === 'PUT')
        .map((entry) => entry.headers['if-match']),
    ).toEqual(['"v0"', '"v1"']);
    const weak = older();
    weak.list = { body: JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [] }) };
    const plain = await put(weak, [one]);
    expect(plain.asked.every((entry) => entry.headers['if-match'] === undefined)).toBe(true);
  });

  it('R96 whose list others never stop changing ends in an error', async () => {
    const world = older({ etag: true, rules: { [`PUT ${path(TAG)}`]: { status: 412 } } });
    world.list = { body: JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [] }) };
    const { code, asked } = await put(world, [referring()]);
    expect(code).toBe('REGISTRY_BUSY');
    expect(asked.length).toBeLessThan(20);
  });

  it('R97 loses nothing to another of the same process', async () => {
    const many = Array.from({ length: 8 }, (_, n) => referring({ annotations: { n: String(n) } }));
    const world = older();
    await put(world, many, { together: true });
    expect(listOf(world)).toHaveLength(8);
  });

  it('R146 gets another tag without a change to any list', async () => {
    const one = referring();
    const world = older({
      rules: {
        [`GET ${path(one.descriptor.digest)}`]: {
          headers: { 'content-type': IMAGE },
          body: Buffer.from(one.bytes),
        },
        [`PUT ${path('stable')}`]: { status: 201 },
      },
    });
    await using registry = await scriptedRegistry(world.rules);
    await using asked = asking();
    const at = parseReference(`${registry.host}/team/app@${one.descriptor.digest}`);
    await asked.client.tagManifest(at, 'stable', asked.options);
    expect(registry.lines()).toEqual([`GET ${path(one.descriptor.digest)}`, `PUT ${path('stable')}`]);
    expect(registry.asked.at(-1)?.body.equals(one.bytes)).toBe(true);
    expect(await codeOf(asked.client.tagManifest(at, '../x', asked.options))).toBe('REFERENCE_INVALID');
  });

  it('that is no digest is not sent', async () => {
    const wrong = referring({ subject: { digest: '../x' } });
    const { code, asked } = await put(older(), [wrong]);
    expect(code).toBe('OCI_MANIFEST_INVALID');
    expect(asked).toEqual([]);
  });
});

describe('deleting what refers', () => {
  async function remove(
    world: World,
    manifest: ManifestBytes,
  ): Promise<{ code: string; lines: readonly string[] }> {
    const { digest } = manifest.descriptor;
    await using registry = await scriptedRegistry({
      [`GET ${path(digest)}`]: { headers: { 'content-type': IMAGE }, body: Buffer.from(manifest.bytes) },
      [`DELETE ${path(digest)}`]: { status: 202 },
      ...world.rules,
    });
    await using asked = asking();
    const at = parseReference(`${registry.host}/team/app@${digest}`);
    const code = await codeOf(asked.client.deleteManifest(at, asked.options));
    return { code, lines: registry.lines() };
  }
  const [one, two] = [referring(), referring({ annotations: { n: '2' } })];

  it('R98 takes it off the list, and the last one takes the list along', async () => {
    const world = older();
    await put(world, [one, two]);
    await remove(world, one);
    expect(listOf(world).map((item) => item.digest)).toEqual([two.descriptor.digest]);
    const { code, lines } = await remove(world, two);
    expect(code).toBe('no error');
    expect(lines.at(-1)).toBe(`DELETE ${path(TAG)}`);
    expect(world.list).toBeUndefined();
  });

  it.each([400, 405])('R98 leaves an empty list where tags cannot be deleted (%i)', async (status) => {
    const world = older({ rules: { [`DELETE ${path(TAG)}`]: { status } } });
    await put(world, [one]);
    expect((await remove(world, one)).code).toBe('no error');
    expect(world.list).toBeDefined();
    expect(listOf(world)).toEqual([]);
  });

  it('R98 asks for no list where the registry keeps it, or where it stood on none', async () => {
    const keeps = older({
      rules: {
        [`GET /v2/team/app/referrers/${SUBJECT}`]: { headers: { 'content-type': INDEX }, body: '{}' },
      },
    });
    expect((await remove(keeps, one)).lines.some((line) => line.endsWith(TAG))).toBe(false);
    const world = older();
    await put(world, [two]);
    const before = world.list;
    await remove(world, one);
    expect(world.list).toBe(before);
  });

  it('R98 goes on where what is deleted cannot be read', async () => {
    const broken = older({ rules: { [`GET ${path(one.descriptor.digest)}`]: { body: 'x' } } });
    expect((await remove(broken, one)).code).toBe('no error');
    const busy = older({ rules: { [`GET ${path(one.descriptor.digest)}`]: { status: 503 } } });
    const { code, lines } = await remove(busy, one);
    expect(code).toBe('REGISTRY_BUSY');
    expect(lines.some((line) => line.startsWith('DELETE'))).toBe(false);
  });
});

describe('the built-in registry', () => {
  it('R99 takes what refers to something that is not there, and lists it by itself', async () => {
    await using world = await servedWorld();
    const served = await world.start({ writable: true });
    const empty = Buffer.from('{}');
    const manifest = referring({
      config: { mediaType: 't/config', digest: digestOf(empty), size: 2 },
      artifactType: 't/sig',
    });
    await using asked = asking();
    const at = { registry: served.host, repository: 'a' };
    const config = { mediaType: 't/config', digest: digestOf(empty), size: 2 };
    await asked.client.putBlob(
      at,
      config,
      async function* () {
        yield empty;
      },
      asked.options,
    );
    const { digest } = manifest.descriptor;
    await asked.client.putManifest({ ...at, digest }, manifest, asked.options);
    expect((await world.store.list()).some(({ reference }) => reference.includes(TAG))).toBe(false);
    const subject = { ...at, digest: SUBJECT };
    expect(await asked.client.listReferrers(subject, asked.options)).toEqual([
      { ...manifest.descriptor, artifactType: 't/sig' },
    ]);
    const wanted = { ...asked.options, artifactType: 't/other' };
    expect(await asked.client.listReferrers(subject, wanted)).toEqual([]);
    await asked.client.deleteManifest({ ...at, digest }, asked.options);
    expect(await asked.client.listReferrers(subject, asked.options)).toEqual([]);
  });
});
