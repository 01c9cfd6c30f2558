import { describe, expect, it } from 'vitest';
import { HttpFailure, type HttpFailureKind, type HttpResponse } from '../../../kernel/http/index.ts';
import type { SkycapError } from '../../../kernel/index.ts';
import { failureError, isRateLimit, type Refusal, readRefusal, refusalError } from './answer.ts';

function answer(status: number, body: string | Error, retryAfter: readonly string[] = []): HttpResponse {
  const text = async (): Promise<string> => {
    if (body instanceof Error) throw body;
    return body;
  };
  const values = (name: string): readonly string[] => (name === 'retry-after' ? retryAfter : []);
  return { status, text, values } as unknown as HttpResponse;
}

describe('what a refusal says', () => {
  it.each<[string, string | Error, readonly string[], string]>([
    [
      'the form of the specification',
      '{"errors":[{"code":"DENIED","message":"no"},{"code":"X"}]}',
      ['DENIED', 'X'],
      'status 403, "DENIED: no"',
    ],
    ['a code alone', '{"errors":[{"code":"DENIED"}]}', ['DENIED'], 'status 403, "DENIED"'],
    ['a message alone', '{"errors":[{"message":"no"}]}', [''], 'status 403, "no"'],
    ['no objects', '{"errors":[null,7,{"code":1,"message":[]}]}', ['', '', ''], 'status 403'],
    ['no errors', '{"errors":[]}', [], 'status 403'],
    ['no list', '{"errors":{"code":"DENIED"}}', [], 'status 403'],
    [
      'OAuth2',
      '{"error":"invalid_grant","error_description":"expired"}',
      ['invalid_grant'],
      'status 403, "invalid_grant: expired"',
    ],
    ['OAuth2 without words', '{"error":"invalid_grant"}', ['invalid_grant'], 'status 403, "invalid_grant"'],
    ['details', '{"details":"incorrect username"}', [''], 'status 403, "incorrect username"'],
    ['other types', '{"error":1,"details":2,"errors":3}', [], 'status 403'],
    ['HTML', '<html>DENIED</html>', [], 'status 403'],
    ['nothing', 'null', [], 'status 403'],
    ['a body that breaks off', new Error('reset'), [], 'status 403'],
  ])('is read from %s', async (_, body, codes, message) => {
    expect(await readRefusal(answer(403, body))).toEqual({
      status: 403,
      retryAfter: undefined,
      codes,
      message,
      text: body instanceof Error ? '' : body,
    });
  });

  it('is cut after twenty errors, and the first of several waits counts', async () => {
    const body = JSON.stringify({ errors: Array.from({ length: 30 }, () => ({ code: 'A' })) });
    const refusal = await readRefusal(answer(429, body, ['7', '8']));
    expect(refusal.codes).toHaveLength(20);
    expect(refusal.retryAfter).toBe('7');
  });
});

const refusal = (status: number, more: Partial<Refusal> = {}): Refusal => ({
  status,
  retryAfter: undefined,
  codes: [],
  message: `status ${status}`,
  text: '',
  ...more,
});
const asked = { subject: 'r.test/a:1', host: 'r.test', authenticated: false };

describe('a refusal becomes', () => {
  it.each<[number, string, RegExp]>([
    [401, 'REGISTRY_UNAUTHORIZED', /^log in with: skycap login r\.test$/],
    [403, 'REGISTRY_FORBIDDEN', /access/],
    [404, 'REGISTRY_NOT_FOUND', /check repository and tag/],
    [405, 'REGISTRY_UNSUPPORTED', /switch this operation on/],
    [501, 'REGISTRY_UNSUPPORTED', /switch this operation on/],
    [429, 'REGISTRY_BUSY', /wait, or log in/],
    [500, 'REGISTRY_BUSY', /try again later/],
    [503, 'REGISTRY_BUSY', /try again later/],
    [400, 'REGISTRY_REFUSED', /read what the registry says/],
    [418, 'REGISTRY_REFUSED', /read what the registry says/],
    [399, 'REGISTRY_ANSWER_INVALID', /check the registry address/],
    [200, 'REGISTRY_ANSWER_INVALID', /check the registry address/],
  ])('of status %i %s with a next step', (status, code, hint) => {
    const error = refusalError(refusal(status, { codes: ['C'] }), asked);
    expect(error.code).toBe(code);
    expect(error.hint).toMatch(hint);
    expect(error.message).toBe(`r.test/a:1: r.test answered with status ${status}`);
    expect(error.details).toEqual({ status, registry: 'r.test', registryCodes: ['C'] });
  });

  it('one that asks to check credentials that were sent, and says how long to wait', () => {
    const error = refusalError(refusal(401), { ...asked, authenticated: true, retryAfterMs: 5 });
    expect(error.hint).toBe('check the credentials with: skycap login r.test');
    expect(error.details).toHaveProperty('retryAfterMs', 5);
  });

  it.each<[Refusal, boolean]>([
    [refusal(429), true],
    [refusal(403, { codes: ['DENIED', 'TOOMANYREQUESTS'] }), true],
    [refusal(400, { codes: ['TOOMANYREQUESTS'] }), true],
    [refusal(499, { text: ' TooManyRequests: wait' }), true],
    [refusal(403, { text: 'so toomanyrequests' }), false],
    [refusal(403, { text: 'toomanyrequestsish' }), false],
    [refusal(403), false],
    [refusal(399, { codes: ['TOOMANYREQUESTS'] }), false],
    [refusal(500, { codes: ['TOOMANYREQUESTS'] }), false],
  ])('a wait or not: %j', (one, wait) => {
    expect(isRateLimit(one)).toBe(wait);
  });
});

describe('a fault below HTTP becomes', () => {
  it.each<[HttpFailureKind, string | undefined, string, RegExp]>([
    ['tls', 'EPROTO', 'REGISTRY_TLS', /speaks no TLS/],
    ['tls', 'ERR_SSL_WRONG_VERSION_NUMBER', 'REGISTRY_TLS', /speaks no TLS/],
    [
      'tls',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      'REGISTRY_TLS',
      /^name its authority .*hosts: \{HOST: \{ca: FILE/,
    ],
    ['tls', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'REGISTRY_TLS', /signed its certificate itself.*ca: FILE/],
    ['tls', 'CERT_HAS_EXPIRED', 'REGISTRY_TLS', /a new certificate/],
    ['tls', 'CERT_NOT_YET_VALID', 'REGISTRY_TLS', /the clock/],
    ['tls', 'ERR_TLS_CERT_ALTNAME_INVALID', 'REGISTRY_TLS', /a name that its certificate is for/],
    ['tls', undefined, 'REGISTRY_TLS', /^name its authority/],
    ['address', undefined, 'REGISTRY_ADDRESS_REFUSED', /closer than its own/],
    ['too-large', undefined, 'REGISTRY_ANSWER_TOO_LARGE', /ask who runs/],
    ['protocol', undefined, 'REGISTRY_ANSWER_INVALID', /address and port/],
    ['reset', undefined, 'REGISTRY_TRUNCATED', /try again/],
    ['proxy', undefined, 'REGISTRY_UNREACHABLE', /HTTPS_PROXY/],
    ['connect', 'ECONNREFUSED', 'REGISTRY_UNREACHABLE', /the port and the network/],
  ])('of kind %s (%s) %s', (kind, errno, code, hint) => {
    const failure = new HttpFailure(kind, 'it failed', errno === undefined ? undefined : { code: errno });
    const error = failureError(failure, 'r.test/a:1') as SkycapError;
    expect(error.code).toBe(code);
    expect(error.hint).toMatch(hint);
    expect(error.message).toBe('r.test/a:1: it failed');
    expect(error.cause).toBe(failure);
  });

  it('itself where it is none', () => {
    const other = new Error('no');
    expect(failureError(other, 'x')).toBe(other);
  });
});
