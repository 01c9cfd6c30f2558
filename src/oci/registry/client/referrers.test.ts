import { describe, expect, it } from 'vitest';
import {
  asking,
  codeOf,
  type Reply,
  type Script,
  scriptedRegistry,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import { parseReference } from '../../names/reference.ts';
import type { Descriptor, Digest } from '../../types.ts';
import { referrersTag } from './index.ts';

const INDEX = 'application/vnd.oci.image.index.v1+json';
const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const SUBJECT = digestOf('the subject');
const API = `GET /v2/team/app/referrers/${SUBJECT}`;
const TAG = `GET /v2/team/app/manifests/${referrersTag(SUBJECT)}`;

const entry = (name: string, artifactType?: string): Descriptor => ({
  mediaType: IMAGE,
  digest: digestOf(name),
  size: name.length,
  ...(artifactType === undefined ? {} : { artifactType }),
});
const indexOf = (manifests: readonly unknown[], more: object = {}): string =>
  JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests, ...more });
const index = (
  manifests: readonly unknown[],
  headers: Record<string, string> = {},
  more: object = {},
): Reply => ({
  headers: { 'content-type': INDEX, ...headers },
  body: indexOf(manifests, more),
});

async function list(
  rules: Readonly<Record<string, Reply | readonly Reply[] | Script>>,
  options: { readonly artifactType?: string; readonly subject?: Digest } = {},
): Promise<{ readonly found: readonly string[] | string; readonly lines: readonly string[] }> {
  await using registry = await scriptedRegistry(rules);
  await using asked = asking();
  const reference = parseReference(`${registry.host}/team/app@${options.subject ?? SUBJECT}`);
  const { artifactType } = options;
  let found: readonly string[] = [];
  const code = await codeOf(
    asked.client
      .listReferrers(reference, { ...asked.options, ...(artifactType === undefined ? {} : { artifactType }) })
      .then((descriptors) => {
        found = descriptors.map((item) => item.digest);
      }),
  );
  return { found: code === 'no error' ? found : code, lines: registry.lines() };
}

const [a, b, c] = [entry('a', 't/one'), entry('b', 't/two'), entry('c', 't/one')];

describe('the list of referrers', () => {
  it('R121 comes from every page, each digest once, asked for with the type', async () => {
    const next = { link: `</v2/team/app/referrers/${SUBJECT}?artifactType=t%2Fone&next=x%2By>; rel="next"` };
    const outcome = await list({ [API]: [index([a, b], next), index([b, c])] }, { artifactType: 't/one' });
    expect(outcome.found).toEqual([a.digest, c.digest]);
    expect(outcome.lines).toEqual([`${API}?artifactType=t/one`, `${API}?artifactType=t/one&next=x+y`]);
    expect((await list({ [API]: [index([a, b], next), index([b, c])] })).found).toHaveLength(3);
  });

  it('R122 is filtered here unless the registry says that it did', async () => {
    const wanted = { artifactType: 't/one' };
    expect((await list({ [API]: index([a, b, entry('d')]) }, wanted)).found).toEqual([a.digest]);
    const filtered = index([a, entry('d')], { 'oci-filters-applied': 'other, artifactType' });
    expect((await list({ [API]: filtered }, wanted)).found).toEqual([a.digest, entry('d').digest]);
    const annotated = index(
      [entry('d')],
      {},
      {
        annotations: { 'org.opencontainers.referrers.filtersApplied': 'artifactType' },
      },
    );
    expect((await list({ [API]: annotated }, wanted)).found).toEqual([entry('d').digest]);
    const lying = index([a, b], { 'oci-filters-applied': 'annotations' });
    expect((await list({ [API]: lying }, wanted)).found).toEqual([a.digest]);
  });

  it.each([404, 405, 501])(
    'R123 is looked for at the fallback tag where it is answered with %i',
    async (status) => {
      const outcome = await list({ [API]: { status }, [TAG]: index([a, b]) }, { artifactType: 't/two' });
      expect(outcome.found).toEqual([b.digest]);
      expect((await list({ [API]: { status } })).found).toEqual([]);
    },
  );

  it('R124 is looked for at the fallback tag where a web page stands in its place', async () => {
    const page: Reply = { headers: { 'content-type': 'text/html' }, body: '<html>' };
    expect((await list({ [API]: page, [TAG]: index([a]) })).found).toEqual([a.digest]);
  });

  it('R124 whose pages are malformed, missing or elsewhere is an error, never a shorter list', async () => {
    const next = (url: string) => index([a], { link: `<${url}>; rel="next"` });
    for (const [reply, code] of [
      [index([{ digest: 'sha256:x' }]), 'OCI_MANIFEST_INVALID'],
      [{ headers: { 'content-type': INDEX }, body: '{' }, 'OCI_MANIFEST_INVALID'],
      [{ headers: { 'content-type': INDEX }, body: '{"manifests":{}}' }, 'REGISTRY_ANSWER_INVALID'],
      [[next('/v2/other'), { status: 404 }], 'REGISTRY_ANSWER_INVALID'],
      [next('http://127.0.0.1:1/v2/x'), 'REGISTRY_ANSWER_INVALID'],
      [{ status: 403 }, 'REGISTRY_FORBIDDEN'],
      [{ ...index([]), endless: true }, 'REGISTRY_ANSWER_TOO_LARGE'],
    ] as const) {
      expect((await list({ [API]: reply as Reply })).found).toBe(code);
    }
    expect(
      (
        await list({
          [TAG]: {
            headers: { 'content-type': IMAGE },
            body: JSON.stringify({ schemaVersion: 2, config: {} }),
          },
        })
      ).found,
    ).toBe('OCI_MANIFEST_INVALID');
  });

  it('R123 R143 is not what a registry gives that reads the fallback tag as a digest', async () => {
    const body = indexOf([a, b]);
    const subject = digestOf(body);
    const rules = {
      [`GET /v2/team/app/manifests/${referrersTag(subject)}`]: { headers: { 'content-type': INDEX }, body },
    };
    expect((await list(rules, { subject })).found).toEqual([]);
    expect((await list({ [TAG]: index([a, b]) })).found).toEqual([a.digest, b.digest]);
  });

  it('R93 stands at a tag cut to the length that tags may have', () => {
    expect(referrersTag(digestOf('x'))).toBe(digestOf('x').replace(':', '-'));
    const long = digestOf('x', 'sha512');
    expect(referrersTag(long)).toBe(`sha512-${long.slice(7, 7 + 64)}`);
  });

  it('R145 hides no tag of the older kind: they are tags as any other', async () => {
    const old = `${digestOf('the subject').replace(':', '-')}.att`;
    await using registry = await scriptedRegistry({
      [API]: index([a]),
      'GET /v2/team/app/tags/list': { body: JSON.stringify({ tags: ['1', old] }) },
    });
    await using asked = asking();
    const at = parseReference(`${registry.host}/team/app@${SUBJECT}`);
    expect((await asked.client.listReferrers(at, asked.options)).map((item) => item.digest)).toEqual([
      a.digest,
    ]);
    expect(await asked.client.listTags(at, asked.options)).toEqual(['1', old]);
  });

  it('is asked for by digest only', async () => {
    await using asked = asking();
    expect(await codeOf(asked.client.listReferrers(asked.at('127.0.0.1:1'), asked.options))).toBe(
      'DIGEST_INVALID',
    );
  });
});
