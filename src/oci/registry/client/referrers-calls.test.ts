import { describe, expect, it } from 'vitest';
import { type Canned, calling, type Made } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import { listReferrers, offersReferrers, subjectOf } from './referrers.ts';
import { addReferrer, readReferrersTag, referrerOf, removeReferrer } from './referrers-tag.ts';

const NAME = 'r.test/team/app:1';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const PULL = ['repository:team/app:pull'];
const SUBJECT = digestOf('the subject');
const TAG = SUBJECT.replace(':', '-');
const entry = (name: string) => ({ mediaType: IMAGE, digest: digestOf(name), size: name.length });
const body = (manifests: unknown, more: object = {}): string =>
  JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests, ...more });
const index = (
  manifests: unknown,
  headers: Readonly<Record<string, string>> = {},
  more: object = {},
): Canned => ({
  headers: { 'content-type': INDEX, ...headers },
  body: body(manifests, more),
});
const coded = (code: Parameters<typeof ociError>[0]): Error => ociError(code, 'said', { hint: 'do' });
const done: Canned = { status: 201 };

const getting: Made = {
  path: `team/app/manifests/${TAG}`,
  subject: `${NAME}: the referrers at the tag ${TAG}`,
  scopes: PULL,
  accept: [200, 404],
  collect: 8 * 1024 * 1024,
  headers: { accept: INDEX },
  lane: 'control',
};
const putting = (text: string, etag?: string): Made => ({
  method: 'PUT',
  path: getting.path,
  subject: `${NAME}: its list of referrers`,
  scopes: ['repository:team/app:pull,push'],
  accept: [200, 201, 202, 204, ...(etag === undefined ? [] : [412])],
  headers: { 'content-type': INDEX, 'if-match': etag },
  body: Buffer.from(text),
  lane: 'control',
});
const deleting: Made = {
  method: 'DELETE',
  path: getting.path,
  subject: `${NAME}: its list of referrers`,
  scopes: ['repository:team/app:pull,delete'],
  accept: [200, 202, 204, 400, 405],
  lane: 'control',
};

describe('the list at the fallback tag', () => {
  it('is read as it stands, with what may be asked for in If-Match', async () => {
    for (const [etag, strong] of [
      ['"v1"', '"v1"'],
      ['W/"v1"', undefined],
      ['v1', undefined],
    ] as const) {
      const { target, calls } = calling([index([1], { etag }, { annotations: { a: 'b' } })]);
      expect(await readReferrersTag(target, SUBJECT)).toEqual({
        body: { schemaVersion: 2, mediaType: INDEX, manifests: [1], annotations: { a: 'b' } },
        manifests: [1],
        etag: strong,
      });
      expect(calls).toEqual([getting]);
    }
    expect((await readReferrersTag(calling([index([])]).target, SUBJECT))?.etag).toBeUndefined();
  });

  it('is none where there is nothing, or the subject itself', async () => {
    expect(await readReferrersTag(calling([{ status: 404 }]).target, SUBJECT)).toBeUndefined();
    for (const algorithm of ['sha256', 'sha512'] as const) {
      const subject = digestOf(body([]), algorithm);
      expect(await readReferrersTag(calling([index([])]).target, subject)).toBeUndefined();
    }
  });

  it.each<[string, Canned]>([
    ['an image', { headers: { 'content-type': IMAGE }, body: '{"schemaVersion":2,"config":{}}' }],
    [
      'an index of another kind',
      {
        headers: { 'content-type': 'application/vnd.docker.distribution.manifest.list.v2+json' },
        body: '{"schemaVersion":2,"manifests":[]}',
      },
    ],
  ])('that is %s is left alone', async (_, reply) => {
    const { target, calls } = calling([reply]);
    await expect(addReferrer(target, SUBJECT, entry('a'))).rejects.toMatchObject({
      code: 'OCI_MANIFEST_INVALID',
      message: `${NAME}: the referrers at the tag ${TAG} are no image index`,
      hint: 'something else has taken that tag; ask who writes to the repository',
    });
    expect(calls).toHaveLength(1);
  });

  it('is begun, or gets one more, and nothing where that stands there already', async () => {
    const begun = calling([{ status: 404 }, done]);
    await addReferrer(begun.target, SUBJECT, entry('a'));
    expect(begun.calls).toEqual([getting, putting(body([entry('a')]))]);
    const kept = index([null, 7, entry('b')], { etag: '"v1"' }, { annotations: { a: 'b' } });
    const longer = calling([kept, done]);
    await addReferrer(longer.target, SUBJECT, entry('a'));
    expect(longer.calls.map(({ body: text, ...call }) => [call, JSON.parse(String(text ?? 'null'))])).toEqual(
      [
        [getting, null],
        [
          (({ body: _, ...call }) => call)(putting('', '"v1"')),
          {
            schemaVersion: 2,
            mediaType: INDEX,
            manifests: [null, 7, entry('b'), entry('a')],
            annotations: { a: 'b' },
          },
        ],
      ],
    );
    const there = calling([index([entry('b'), entry('a')])]);
    await addReferrer(there.target, SUBJECT, entry('a'));
    expect(there.calls).toEqual([getting]);
  });

  it('loses what is deleted, and goes with the last of it', async () => {
    const shorter = calling([index([entry('a'), entry('b')]), done]);
    await removeReferrer(shorter.target, SUBJECT, entry('a').digest);
    expect(shorter.calls).toEqual([getting, putting(body([entry('b')]))]);
    const last = calling([index([entry('a')]), { status: 202 }]);
    await removeReferrer(last.target, SUBJECT, entry('a').digest);
    expect(last.calls).toEqual([getting, deleting]);
    const without = calling([index([entry('b')])]);
    await removeReferrer(without.target, SUBJECT, entry('a').digest);
    expect(without.calls).toEqual([getting]);
  });

  it('is left empty where it may not be deleted, is gone where it is not found, else that is an error', async () => {
    const removing = (...replies: readonly (Canned | Error)[]) => {
      const world = calling([index([entry('a')]), ...replies]);
      return { ...world, removed: removeReferrer(world.target, SUBJECT, entry('a').digest) };
    };
    for (const reply of [{ status: 405 }, coded('REGISTRY_UNSUPPORTED'), coded('REGISTRY_FORBIDDEN')]) {
      const { removed, calls } = removing(reply, done);
      await removed;
      expect(calls).toEqual([getting, deleting, putting(body([]))]);
    }
    const gone = removing(coded('REGISTRY_NOT_FOUND'));
    await gone.removed;
    expect(gone.calls).toHaveLength(2);
    const busy = coded('REGISTRY_BUSY');
    const failing = removing(busy, done);
    await expect(failing.removed).rejects.toBe(busy);
    expect(failing.calls).toHaveLength(2);
  });

  it('that another writer changed meanwhile is read again after a wait, and some time that ends', async () => {
    const seen = index([entry('b')], { etag: '"v1"' });
    const good = calling([seen, { status: 412 }, index([entry('c')], { etag: '"v2"' }), done]);
    await addReferrer(good.target, SUBJECT, entry('a'));
    expect(good.pauses).toEqual([{ askedMs: undefined, registry: 'r.test', reason: 'status 412' }]);
    expect(good.calls[3]).toEqual(putting(body([entry('c'), entry('a')]), '"v2"'));
    const bad = calling(({ method }) => (method === 'PUT' ? { status: 412 } : seen));
    await expect(addReferrer(bad.target, SUBJECT, entry('a'))).rejects.toMatchObject({
      code: 'REGISTRY_BUSY',
      message: `${NAME}: others keep changing its list of referrers`,
      hint: 'try again',
    });
    expect(bad.begun()).toBe(1);
  });

  it('is changed by one after another, also after one that failed; those of other subjects do not wait', async () => {
    let list = index([]);
    let failed = false;
    const { target, calls } = calling((call) => {
      if (!failed) {
        failed = true;
        return coded('REGISTRY_BUSY');
      }
      if (call.method === 'PUT') list = { ...list, body: call.body ?? '' };
      return call.method === 'PUT' ? done : list;
    });
    const names = ['a', 'b', 'c'];
    const adding = await Promise.allSettled(names.map((name) => addReferrer(target, SUBJECT, entry(name))));
    expect(adding.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
    expect(JSON.parse(String(list.body))).toMatchObject({ manifests: [entry('b'), entry('c')] });
    expect(calls.map(({ method = 'GET' }) => method)).toEqual(['GET', 'GET', 'PUT', 'GET', 'PUT']);
    const both = calling(() => index([]));
    await Promise.all([SUBJECT, digestOf('another')].map((one) => addReferrer(both.target, one, entry('a'))));
    expect(both.calls.map(({ method = 'GET' }) => method)).toEqual(['GET', 'GET', 'PUT', 'PUT']);
  });
});

it('a change that comes while another is under way waits for it, though one before has ended', async () => {
  let list = index([]);
  const { target } = calling((call) => {
    if (call.method === 'PUT') list = { ...list, body: call.body ?? '' };
    return call.method === 'PUT' ? done : list;
  });
  const [first, second] = ['a', 'b'].map((name) => addReferrer(target, SUBJECT, entry(name)));
  await first;
  await Promise.all([second, addReferrer(target, SUBJECT, entry('c'))]);
  expect(JSON.parse(String(list.body))).toMatchObject({ manifests: ['a', 'b', 'c'].map(entry) });
});

describe('what the list says of a manifest', () => {
  const descriptor = entry('a');

  it.each<[object, object]>([
    [{}, {}],
    [{ artifactType: 't/a', config: { mediaType: 't/c' } }, { artifactType: 't/a' }],
    [{ artifactType: '', config: { mediaType: 't/c' } }, { artifactType: 't/c' }],
    [{ artifactType: 7, config: { mediaType: 't/c' } }, { artifactType: 't/c' }],
    [{ config: { mediaType: '' } }, {}],
    [{ config: null }, {}],
    [{ annotations: { a: 'b' } }, { annotations: { a: 'b' } }],
  ])('is read from %j', (of, said) => {
    expect(referrerOf({ ...descriptor, urls: ['x'] }, of as Parameters<typeof referrerOf>[1])).toStrictEqual({
      ...descriptor,
      ...said,
    });
  });

  it('names what is wrong with it', () => {
    expect(() => referrerOf(descriptor, { annotations: { a: 7 } })).toThrow(/^the manifest to push/);
  });

  it('and whom it refers to, or that this is none', () => {
    expect(subjectOf({}, 'x')).toBeUndefined();
    expect(subjectOf({ subject: null }, 'x')).toBeUndefined();
    expect(subjectOf({ subject: { digest: SUBJECT } }, 'x')).toBe(SUBJECT);
    for (const [subject, said] of [
      [{ digest: '../x' }, '"../x"'],
      [{}, '"undefined"'],
      [SUBJECT, '"undefined"'],
      ['', '"undefined"'],
    ] as const) {
      expect(() => subjectOf({ subject }, 'x')).toThrow(
        expect.objectContaining({
          code: 'OCI_MANIFEST_INVALID',
          message: `x: its subject ${said} is not a digest`,
          hint: 'ask who made the manifest',
        }),
      );
    }
  });
});

describe('the list that the registry keeps', () => {
  const asking: Made = {
    path: `team/app/referrers/${SUBJECT}`,
    subject: NAME,
    scopes: PULL,
    accept: [200, 404, 405, 501],
    headers: { accept: INDEX },
    lane: 'control',
  };
  const page: Made = { ...asking, collect: 8 * 1024 * 1024 };
  const a = { ...entry('a'), artifactType: 't/one' };
  const b = { ...entry('b'), artifactType: 't/two' };

  it('is asked for with the type that is wanted', async () => {
    const all = calling([index([a, b])]);
    expect(await listReferrers(all.target, SUBJECT, undefined)).toEqual([a, b]);
    expect(all.calls).toEqual([page]);
    const some = calling([index([a, b])]);
    expect(await listReferrers(some.target, SUBJECT, 't/two')).toEqual([b]);
    expect(some.calls).toEqual([{ ...page, path: `${page.path}?artifactType=t%2Ftwo` }]);
  });

  it('is filtered here unless the registry says that it was, each page for itself', async () => {
    const next = `<?artifactType=t%2Ftwo&p=2>; rel="next"`;
    const pages = [
      index([a], { link: next, 'oci-filters-applied': ' artifactType ' }),
      index([{ ...a, digest: digestOf('c') }, b]),
    ];
    expect(await listReferrers(calling(pages).target, SUBJECT, 't/two')).toEqual([a, b]);
    const annotated = (value: unknown): Canned =>
      index([a], {}, { annotations: { 'org.opencontainers.referrers.filtersApplied': value } });
    expect(await listReferrers(calling([annotated('x,artifactType')]).target, SUBJECT, 't/two')).toEqual([a]);
    expect(await listReferrers(calling([annotated(7)]).target, SUBJECT, 't/two')).toEqual([]);
    expect(await listReferrers(calling([annotated('artifactTypes')]).target, SUBJECT, 't/two')).toEqual([]);
  });

  it.each([
    ['application/json', 1],
    [`${INDEX.toUpperCase()} ; charset=utf-8`, 1],
    ['text/html', 2],
    ['', 2],
  ])('is one where it is sent as %j, else the tag is asked (%i)', async (type, count) => {
    const reply = { ...index([a]), headers: type === '' ? {} : { 'content-type': type } };
    const { target, calls } = calling([reply, { status: 404 }]);
    expect(await listReferrers(target, SUBJECT, undefined)).toEqual(count === 1 ? [a] : []);
    expect(calls).toHaveLength(count);
  });

  it('names what is wrong with it', async () => {
    const of = (reply: Canned) => listReferrers(calling([reply]).target, SUBJECT, undefined);
    const raw = (text: string): Canned => ({ headers: { 'content-type': INDEX }, body: text });
    for (const [text, problem] of [
      ['[]', 'it is no JSON object'],
      ['{"manifests":{}}', 'it holds no list'],
    ] as const) {
      await expect(of(raw(text))).rejects.toMatchObject({
        code: 'REGISTRY_ANSWER_INVALID',
        message: `${NAME}: the list of referrers is refused: ${problem}`,
        hint: 'check whether a proxy answers in place of the registry',
      });
    }
    await expect(of(raw('{'))).rejects.toThrow(`${NAME}: the list of referrers is malformed`);
    await expect(of(index([{}]))).rejects.toThrow(
      /^r\.test\/team\/app:1: the list of referrers.*a referrer\./,
    );
    expect(await of(raw('{}'))).toEqual([]);
    const next = { link: '<?p=2>; rel="next"' };
    const missing = calling([index([a], next), { status: 404 }]);
    await expect(listReferrers(missing.target, SUBJECT, undefined)).rejects.toThrow(
      'one of its pages is missing',
    );
    const empty = calling([index([], next), { status: 404 }, index([b])]);
    expect(await listReferrers(empty.target, SUBJECT, undefined)).toEqual([b]);
  });

  it('is known to be kept or not once it was asked for, by repository', async () => {
    for (const [reply, offered] of [
      [index([]), true],
      [{ status: 404 }, false],
      [{ status: 501 }, false],
      [{ headers: { 'content-type': 'text/html' } }, false],
    ] as const) {
      const { target, calls } = calling([reply]);
      expect(await offersReferrers(target, SUBJECT)).toBe(offered);
      expect(await offersReferrers(target, SUBJECT)).toBe(offered);
      expect(calls).toEqual([asking]);
    }
    const { target, calls } = calling([index([])]);
    await listReferrers(target, SUBJECT, undefined);
    expect(await offersReferrers(target, SUBJECT)).toBe(true);
    expect(calls).toHaveLength(1);
    const none = calling([{ status: 404 }]);
    await listReferrers(none.target, SUBJECT, undefined);
    expect(await offersReferrers(none.target, SUBJECT)).toBe(false);
    expect(none.calls).toHaveLength(2);
  });
});
