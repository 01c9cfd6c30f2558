import { describe, expect, it } from 'vitest';
import { HttpFailure, type HttpResponse } from '../../../kernel/http/index.ts';
import { digestOf } from '../../names/index.ts';
import type { Answer } from './caller.ts';
import type { Target } from './target.ts';
import { closing, rangeEnd, sessionOf } from './upload-session.ts';

const DIGEST = digestOf('x');

function response(headers: Readonly<Record<string, string>>): HttpResponse {
  const values = (name: string): readonly string[] => {
    const value = headers[name];
    return value === undefined ? [] : [value];
  };
  return { values } as unknown as HttpResponse;
}

const answer = (
  headers: Readonly<Record<string, string>>,
  at = 'https://r.test:5000/v2/a/blobs/uploads/',
): Answer => ({ response: response(headers), url: new URL(at) }) as unknown as Answer;

const target = (refused?: string): Target =>
  ({
    subject: 'r.test/a:1',
    host: {
      name: 'r.test',
      checkTarget(next: URL) {
        if (next.hostname === refused) throw new HttpFailure('address', 'it leads elsewhere');
      },
    },
  }) as unknown as Target;

describe('the next address of an upload', () => {
  const at = (location: string, from?: string): string =>
    sessionOf(target(), answer({ location }, from)).location.href;

  it.each([
    ['/v2/a/blobs/uploads/1?s=%2B', 'https://r.test:5000/v2/a/blobs/uploads/1?s=%2B'],
    ['2', 'https://r.test:5000/v2/a/blobs/uploads/2'],
    ['?s=3', 'https://r.test:5000/v2/a/blobs/uploads/?s=3'],
    ['https://other.test/4', 'https://other.test/4'],
    // Behind a TLS proxy the registry knows the http side of its own address; another host is believed to mean it.
    ['http://r.test/5', 'https://r.test:5000/5'],
    ['http://r.test:80/6', 'https://r.test:5000/6'],
    ['http://other.test/7', 'http://other.test/7'],
  ])('%s is %s', (location, wanted) => {
    expect(at(location)).toBe(wanted);
  });

  it('stays http where the registry is, and stays what it was where nothing is said', () => {
    expect(at('http://r.test/1', 'http://r.test:5000/v2/')).toBe('http://r.test/1');
    const before = { location: new URL('https://r.test/b'), minChunk: 7 };
    expect(sessionOf(target(), answer({}), before)).toBe(before);
    expect(sessionOf(target(), answer({ location: '/c' }), before)).toEqual({
      location: new URL('https://r.test:5000/c'),
      minChunk: 7,
    });
  });

  it.each([[{}], [{ location: 'http://[' }]])('that is missing or none is refused: %j', (headers) => {
    expect(() => sessionOf(target(), answer(headers as Record<string, string>))).toThrow(
      'r.test/a:1: r.test does not say where to upload',
    );
  });

  it('that may not be asked is refused as what it is', () => {
    expect(() => sessionOf(target('bad.test'), answer({ location: 'https://bad.test/1' }))).toThrow(
      expect.objectContaining({
        code: 'REGISTRY_ADDRESS_REFUSED',
        message: 'r.test/a:1: it leads elsewhere',
      }),
    );
  });

  it.each([
    ['0', 0],
    ['1', 1],
    ['1048576', 1_048_576],
    ['-1', 0],
    ['1.5', 0],
    ['many', 0],
    ['1e300', 0],
  ])('asks for chunks of at least %s: %i', (said, wanted) => {
    const headers = { location: '/1', 'oci-chunk-min-length': said };
    expect(sessionOf(target(), answer(headers)).minChunk).toBe(wanted);
    const before = { location: new URL('https://r.test/b'), minChunk: 99 };
    expect(sessionOf(target(), answer(headers), before).minChunk).toBe(wanted);
  });
});

it.each([
  ['https://r.test/1', `https://r.test/1?digest=${encodeURIComponent(DIGEST)}`],
  ['https://r.test/1?s=a%2Fb%2B', `https://r.test/1?s=a%2Fb%2B&digest=${encodeURIComponent(DIGEST)}`],
])('the closing request of %s goes to %s, its query unchanged', (location, wanted) => {
  const session = { location: new URL(location), minChunk: 0 };
  expect(closing(session, DIGEST).href).toBe(wanted);
  expect(session.location.href).toBe(location);
});

it.each<[string | undefined, number | undefined]>([
  ['0-0', 1],
  ['0-1023', 1024],
  ['bytes=0-9', 10],
  ['bytes 0-9', 10],
  ['0-999999999999999', 1e15],
  ['0-1000000000000000', undefined],
  ['1-9', undefined],
  ['0-', undefined],
  ['0-9/10', undefined],
  ['x0-9', undefined],
  ['bytes0-9', undefined],
  ['', undefined],
  [undefined, undefined],
])('a range of %s ends before byte %s', (range, end) => {
  expect(rangeEnd(response(range === undefined ? {} : { range }))).toBe(end);
});
