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

  it('come from every page, in order, each once', async () => {
    expect(
      await list({
        [TAGS]: [page(['a', 'b'], '</v2/team/app/tags/list?token=x%2By&n=2>; rel="next"'), page(['b', 'c'])],
      }),
    ).toEqual(['a', 'b', 'c']);
    expect(await list({ [TAGS]: page(null) })).toEqual([]);
    expect(await list({ [TAGS]: page(['ok', '../x', 7, 'a b']) })).toEqual(['ok']);
  });

  it.each([
    ['circle', [page(['a'], '</v2/team/app/tags/list?n=1000>; rel="next"')]],
    ['another host', [page(['a'], '<http://127.0.0.1:1/v2/x>; rel="next"')]],
    ['web page', [{ body: '<html>' }]],
    ['no list', [page({ a: 1 })]],
    ['text', [{ body: 'tags' }]],
  ] as const)('end at a %s', async (_, replies) => {
    expect(await list({ [TAGS]: replies as readonly Reply[] })).toBe('REGISTRY_ANSWER_INVALID');
  });

  it('of nothing are missing; endless ones too large', async () => {
    expect(await list({ [TAGS]: { status: 404 } })).toBe('REGISTRY_NOT_FOUND');
    expect(await list({ [TAGS]: { endless: true } })).toBe('REGISTRY_ANSWER_TOO_LARGE');
  });
});
