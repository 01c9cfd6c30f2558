import { describe, expect, it } from 'vitest';
import { digestOf } from '../../names/index.ts';
import { parseRange, parseRoute } from './route.ts';

const digest = digestOf('a');
const long = digestOf('a', 'sha512');
const id = '0a1b2c3d-0000-4000-8000-0123456789ab';
const invalid = (code: string): object => ({ kind: 'invalid', code });

describe('parseRoute', () => {
  it.each<readonly [string, object]>([
    ['/v2/', { kind: 'root' }],
    ['/v2', { kind: 'root' }],
    ['/token', { kind: 'token' }],
    ['/v2/_catalog', { kind: 'catalog' }],
    ['/v2/a/manifests/1', { kind: 'manifest', repository: 'a', tag: '1' }],
    ['/v2/a/manifests/uploads', { kind: 'manifest', repository: 'a', tag: 'uploads' }],
    ['/v2/a/b/manifests/Latest_1.0', { kind: 'manifest', repository: 'a/b', tag: 'Latest_1.0' }],
    [`/v2/a/manifests/${digest}`, { kind: 'manifest', repository: 'a', digest }],
    [`/v2/a/manifests/${long}`, { kind: 'manifest', repository: 'a', digest: long }],
    [`/v2/a/manifests/${digest.replace(':', '%3A')}`, { kind: 'manifest', repository: 'a', digest }],
    [`/v2/a/b/c/blobs/${digest}`, { kind: 'blob', repository: 'a/b/c', digest }],
    [`/v2/a/referrers/${digest}`, { kind: 'referrers', repository: 'a', digest }],
    ['/v2/a/tags/list', { kind: 'tags', repository: 'a' }],
    ['/v2/a/b/tags/list', { kind: 'tags', repository: 'a/b' }],
    ['/v2/a/blobs/uploads', { kind: 'uploads', repository: 'a' }],
    ['/v2/a/b/blobs/uploads/', { kind: 'uploads', repository: 'a/b' }],
    [`/v2/a/blobs/uploads/${id}`, { kind: 'upload', repository: 'a', id }],
  ])('%s is understood', (path, route) => {
    expect(parseRoute(path)).toEqual(route);
  });

  it('a repository may be called as the parts of an address are', () => {
    expect(parseRoute('/v2/a/blobs/blobs/uploads/')).toEqual({ kind: 'uploads', repository: 'a/blobs' });
    expect(parseRoute(`/v2/a/blobs/blobs/uploads/${id}`)).toEqual({
      kind: 'upload',
      repository: 'a/blobs',
      id,
    });
    expect(parseRoute('/v2/tags/list/tags/list')).toEqual({ kind: 'tags', repository: 'tags/list' });
    expect(parseRoute('/v2/blobs/uploads/manifests/1')).toEqual({
      kind: 'manifest',
      repository: 'blobs/uploads',
      tag: '1',
    });
  });

  it.each<readonly [string, object]>([
    ['/v2/A/manifests/1', invalid('NAME_INVALID')],
    ['/v2/A/tags/list', invalid('NAME_INVALID')],
    [`/v2/A/blobs/${digest}`, invalid('NAME_INVALID')],
    ['/v2/A/blobs/uploads/', invalid('NAME_INVALID')],
    [`/v2/A/blobs/uploads/${id}`, invalid('NAME_INVALID')],
    ['/v2/a%0A/manifests/1', invalid('NAME_INVALID')],
    ['/v2/a/manifests/-1', invalid('TAG_INVALID')],
    ['/v2/a/manifests/sha256:1', invalid('DIGEST_INVALID')],
    [`/v2/a/manifests/${digest}0`, invalid('DIGEST_INVALID')],
    ['/v2/a/blobs/latest', invalid('DIGEST_INVALID')],
    ['/v2/a/blobs/sha256:1', invalid('DIGEST_INVALID')],
    ['/v2/a/blobs/uploadsx', invalid('DIGEST_INVALID')],
    ['/v2/a/referrers/latest', invalid('DIGEST_INVALID')],
    ['/v2/a/referrers/uploads', invalid('DIGEST_INVALID')],
  ])('%s says what is malformed', (path, route) => {
    expect(parseRoute(path)).toEqual(route);
  });

  it.each([
    '',
    '/',
    '/v1/',
    '/v2x',
    '/tokens',
    '/v2/_catalog/',
    'x/v2/a/tags/list',
    '/v2/a/tags/lists',
    '/v2/a/tags/list/1',
    '/v2/a/tags',
    '/v2/a/manifests/',
    '/v2/a/manifests/1/2',
    '/v2/manifests/1',
    `/v2/a/blob/${digest}`,
    `/v2/a/blobs/uploads/${id}x`,
    `/v2/a/blobs/uploads/x${id}`,
    `/v2/a/blobs/uploads/${id.slice(1)}`,
    `/v2/a/blobs/uploads/${id.toUpperCase()}`,
    `/v2/a/blobs/uploads/${id}/x`,
    '/v2/a/manifests/%ff',
  ])('%j is no address', (path) => {
    expect(parseRoute(path)).toEqual({ kind: 'unknown' });
  });
});

describe('parseRange', () => {
  it.each([
    ['bytes=0-', 10, { start: 0, end: 9 }],
    ['bytes=0-0', 10, { start: 0, end: 0 }],
    ['bytes=3-3', 10, { start: 3, end: 3 }],
    ['bytes=3-8', 10, { start: 3, end: 8 }],
    ['bytes=3-9', 10, { start: 3, end: 9 }],
    ['bytes=3-10', 10, { start: 3, end: 9 }],
    ['bytes=9-', 10, { start: 9, end: 9 }],
    ['bytes=-1', 10, { start: 9, end: 9 }],
    ['bytes=-3', 10, { start: 7, end: 9 }],
    ['bytes=-10', 10, { start: 0, end: 9 }],
    ['bytes=-99', 10, { start: 0, end: 9 }],
    ['bytes=-0', 10, 'unsatisfiable'],
    ['bytes=10-', 10, 'unsatisfiable'],
    ['bytes=10-12', 10, 'unsatisfiable'],
    ['bytes=5-2', 10, 'unsatisfiable'],
    ['bytes=5-4', 10, 'unsatisfiable'],
    ['bytes=0-', 0, 'unsatisfiable'],
    ['bytes=-5', 0, 'unsatisfiable'],
    ['bytes=0-999999999999999', 10, { start: 0, end: 9 }],
    ['bytes=0-9999999999999999', 10, undefined],
    ['bytes=1-2,4-5', 10, undefined],
    ['bytes=-', 10, undefined],
    ['bytes=0', 10, undefined],
    ['bytes=a-b', 10, undefined],
    ['items=0-1', 10, undefined],
    ['x bytes=0-1', 10, undefined],
    ['bytes=0-1 x', 10, undefined],
    ['', 10, undefined],
    [undefined, 10, undefined],
  ] as const)('%s of %s bytes', (header, size, range) => {
    expect(parseRange(header, size)).toEqual(range);
  });
});
