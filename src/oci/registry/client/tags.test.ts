import { describe, expect, it } from 'vitest';
import { asking, codeOf, type Reply, scriptedRegistry } from '../../../testkit/registry/index.ts';

const at = (path: string): string => `GET /v2/team/app/${path}`;

describe('tags', () => {
  const page = (tags: unknown, link?: string): Reply => ({
    body: JSON.stringify({ name: 'team/app', tags }),
    ...(link === undefined ? {} : { headers: { link } }),
  });
  const list = async (
    rules: Record<string, Reply | readonly Reply[]>,
  ): Promise<readonly string[] | string> => {
    await using registry = await scriptedRegistry(rules);
    await using asked = asking();
    let tags: readonly string[] = [];
    const code = await codeOf(
      asked.client.listTags(asked.at(registry.host), asked.options).then((found) => {
        tags = found;
      }),
    );
    return code === 'no error' ? tags : code;
  };
  const TAGS = at('tags/list');

  it('R125 R148 come from every page, in order, each once', async () => {
    expect(
      await list({
        [TAGS]: [page(['a', 'b'], '</v2/team/app/tags/list?token=x%2By&n=2>; rel="next"'), page(['b', 'c'])],
      }),
    ).toEqual(['a', 'b', 'c']);
    expect(await list({ [TAGS]: page(null) })).toEqual([]);
    expect(await list({ [TAGS]: page(['ok', '../x', 7, 'a b']) })).toEqual(['ok']);
  });

  const ends = [
    ['circle', [page(['a'], '</v2/team/app/tags/list?n=1000>; rel="next"')]],
    ['another host', [page(['a'], '<http://127.0.0.1:1/v2/x>; rel="next"')]],
    ['page with credentials in its address', [page(['a'], '<http://u:p@127.0.0.1/v2/x>; rel="next"')]],
    ['page at the metadata address', [page(['a'], '<http://169.254.169.254/latest>; rel="next"')]],
    ['page that is no address', [page(['a'], '<http://[>; rel="next"')]],
    ['web page', [{ body: '<html>' }]],
    ['no list', [page({ a: 1 })]],
    ['text', [{ body: 'tags' }]],
  ] as const;
  it.each(ends)('R126 R147 R152 end at a %s', async (_, replies) => {
    expect(await list({ [TAGS]: replies as readonly Reply[] })).toBe('REGISTRY_ANSWER_INVALID');
  });

  it.each<[string, Reply, RegExp]>([
    ['a circle', ends[0][1][0] as Reply, /the pages never end$/],
    ['another host', ends[1][1][0] as Reply, /the next page is at "http:.*", another place$/],
    ['a web page', { body: ' <html>' }, /the answer is a web page$/],
    ['text', { body: 'tags' }, /the answer is not JSON$/],
    ['no list', page({ a: 1 }), /the answer holds no list$/],
  ])('R126 R147 R152 say why they end at %s', async (_, reply, message) => {
    await using registry = await scriptedRegistry({ [TAGS]: reply });
    await using asked = asking();
    await expect(asked.client.listTags(asked.at(registry.host), asked.options)).rejects.toMatchObject({
      message: expect.stringMatching(message),
      hint: 'check whether a proxy answers in place of the registry',
    });
    await expect(asked.client.listTags(asked.at(registry.host), asked.options)).rejects.toThrow(
      /: the list of tags is refused: /,
    );
  });

  it('R126 R154 of nothing are missing; endless ones too large', async () => {
    expect(await list({ [TAGS]: { status: 404 } })).toBe('REGISTRY_NOT_FOUND');
    expect(await list({ [TAGS]: { endless: true } })).toBe('REGISTRY_ANSWER_TOO_LARGE');
  });

  it('R125 R148 come from the next page as its link spells it', async () => {
    await using registry = await scriptedRegistry({
      [TAGS]: (asked) =>
        asked.query.has('next_page') ? page(['b']) : page(['a'], '<?next_page=a%2Fb%2B%3D&n=1>; rel="next"'),
    });
    await using asked = asking();
    expect(await asked.client.listTags(asked.at(registry.host), asked.options)).toEqual(['a', 'b']);
    expect(registry.asked.map((entry) => entry.url).slice(1)).toEqual([
      '/v2/team/app/tags/list?n=1000',
      '/v2/team/app/tags/list?next_page=a%2Fb%2B%3D&n=1',
    ]);
  });

  it('R126 R154 end after 64 MiB', async () => {
    const tags = Array.from({ length: 60_000 }, (_, n) => `${n}`.padStart(128, 't'));
    let asked = 0;
    const reply = (): Reply => {
      asked += 1;
      return page(tags, `</v2/team/app/tags/list?p=${asked}>; rel="next"`);
    };
    await using registry = await scriptedRegistry({ [TAGS]: reply });
    await using client = asking();
    expect(await codeOf(client.client.listTags(client.at(registry.host), client.options))).toBe(
      'REGISTRY_ANSWER_TOO_LARGE',
    );
    expect(asked).toBe(9);
  });
});
