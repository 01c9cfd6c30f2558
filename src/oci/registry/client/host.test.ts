import { describe, expect, it } from 'vitest';
import {
  type HttpClient,
  HttpFailure,
  type HttpRequest,
  type TlsSettings,
} from '../../../kernel/http/index.ts';
import { type Canned, cannedResponse } from '../../../testkit/registry/index.ts';
import { type Host, type HostSettings, makeHost } from './host.ts';

const { signal } = new AbortController();
const URL_OF = (request: HttpRequest | undefined): string => String(request?.url);
const failure = (kind: 'connect' | 'tls' | 'reset' | 'timeout' | 'address', code?: string): HttpFailure =>
  new HttpFailure(kind, `${kind} failed`, code === undefined ? undefined : { code });

/** A host behind an HTTP client that answers as told. */
function world(
  reply: (request: HttpRequest) => Canned | Error = () => ({}),
  more: Partial<HostSettings> & { readonly name?: string } = {},
) {
  const requests: HttpRequest[] = [];
  const http: HttpClient = {
    request: async (request) => {
      requests.push(request);
      const canned = reply(request);
      if (canned instanceof Error) throw canned;
      const response = cannedResponse({ remoteAddress: '8.8.8.8', ...canned });
      return canned.remoteAddress === '' ? { ...response, remoteAddress: undefined } : response;
    },
    upgrade: async () => {
      throw new Error('not here');
    },
    [Symbol.asyncDispose]: async () => {},
  };
  const { name = 'r.test:5000', ...settings } = more;
  const host = makeHost(http, name, { insecure: false, tls: () => undefined, ...settings });
  return { host, requests };
}

const plainOnly = (request: HttpRequest): Canned | Error =>
  URL_OF(request).startsWith('https://r.test')
    ? failure('connect', 'ECONNREFUSED')
    : { remoteAddress: '127.0.0.1' };
const found = async (host: Host): Promise<string> => {
  try {
    return (await host.origin(signal)).origin;
  } catch (error) {
    return (error as Error).message;
  }
};
/** Which of these may be connected to. */
const allowed = (request: HttpRequest | undefined): readonly string[] =>
  ['8.8.4.4', '10.0.0.1', '127.0.0.1', '240.0.0.1', '169.254.169.254'].filter(
    (address) => request?.checkAddress?.(address) === undefined,
  );

describe('the first look', () => {
  it('is asked on https, in its own lane, once', async () => {
    const { host, requests } = world();
    expect(await found(host)).toBe('https://r.test:5000');
    expect(await found(host)).toBe('https://r.test:5000');
    expect(requests).toEqual([
      {
        url: 'https://r.test:5000/v2/',
        headers: { accept: 'application/json' },
        lane: 'control',
        signal,
        checkAddress: expect.any(Function) as () => undefined,
      },
    ]);
    expect(requests[0]).not.toHaveProperty('tls');
  });

  it('goes to plain http at loopback alone where nobody speaks TLS, past any proxy', async () => {
    const { host, requests } = world(plainOnly);
    expect(await found(host)).toBe('http://r.test:5000');
    expect(requests[1]).toMatchObject({
      url: 'http://r.test:5000/v2/',
      direct: true,
      lane: 'control',
      signal,
    });
    expect(allowed(requests[1])).toEqual(['127.0.0.1']);
  });

  it('goes to plain http anywhere where the configuration allows it, and trusts any certificate', async () => {
    const { host, requests } = world(plainOnly, { insecure: true });
    expect(await found(host)).toBe('http://r.test:5000');
    expect(requests[1]).not.toHaveProperty('direct');
    expect(allowed(requests[1])).toEqual(['8.8.4.4', '10.0.0.1', '127.0.0.1', '240.0.0.1']);
    expect(requests.map(({ tls }) => tls)).toEqual([{ insecure: true }, { insecure: true }]);
  });

  it.each<[string, HttpFailure, boolean]>([
    ['nobody listens', failure('connect', 'ECONNREFUSED'), true],
    ['nobody listens, for whatever reason', failure('connect'), true],
    ['the connection is reset', failure('reset', 'ECONNRESET'), true],
    ['the pipe is broken', failure('reset', 'EPIPE'), true],
    ['it breaks otherwise', failure('reset', 'EOTHER'), false],
    ['it breaks without a word', failure('reset'), false],
    ...['WRONG_VERSION_NUMBER', 'PACKET_LENGTH_TOO_LONG', 'HTTP_REQUEST', 'UNKNOWN_PROTOCOL'].map(
      (word): [string, HttpFailure, boolean] => [word, failure('tls', `ERR_SSL_${word}`), true],
    ),
    ['an unknown name', failure('tls', 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME'), true],
    ['the protocol is broken', failure('tls', 'EPROTO'), true],
    ['an error that begins so', failure('tls', 'EPROTO2'), false],
    ['an error that ends so', failure('tls', 'XEPROTO'), false],
    ['a bad certificate', failure('tls', 'CERT_HAS_EXPIRED'), false],
    ['TLS fails without a word', failure('tls'), false],
    ['it takes too long', failure('timeout', 'EPROTO'), false],
  ])('is no sign of plain http or one where %s', async (_, error, isPlain) => {
    const { host, requests } = world((request) => (URL_OF(request).startsWith('https') ? error : {}));
    expect(await found(host)).toBe(isPlain ? 'http://r.test:5000' : error.message);
    expect(requests).toHaveLength(isPlain ? 2 : 1);
  });

  it('fails as https did where plain http may not be asked, else as plain http did', async () => {
    const second = (error: HttpFailure) =>
      world((request) => (URL_OF(request).startsWith('https') ? failure('connect') : error)).host;
    expect(await found(second(failure('address')))).toBe('connect failed');
    expect(await found(second(failure('timeout')))).toBe('timeout failed');
    const fault = new TypeError('no');
    await expect(world(() => fault).host.origin(signal)).rejects.toBe(fault);
  });

  it.each([
    ['is silent', failure('timeout')],
    ['only puts off', new HttpFailure('protocol', 'protocol failed')],
    ['is not there', failure('connect', 'ECONNREFUSED')],
  ])('is not repeated with TLS on this machine where somebody %s', async (_, error) => {
    const { host, requests } = world(() => error, { name: 'localhost:5000' });
    expect(await found(host)).toBe(error.message);
    expect(requests.map(URL_OF)).toEqual(['http://localhost:5000/v2/']);
  });

  it('is taken again after it failed', async () => {
    let count = 0;
    const { host } = world(() => (++count === 1 ? failure('timeout') : {}));
    expect(await found(host)).toBe('timeout failed');
    expect(await found(host)).toBe('https://r.test:5000');
  });
});

describe('how it wants us to authenticate', () => {
  const challenged = (status: number): Canned => ({
    status,
    headers: { 'www-authenticate': 'Bearer realm="r",service="s",scope="repository:x:pull"' },
  });

  it('is known from the last challenge, without its scope', async () => {
    let status = 401;
    const { host } = world(() => challenged(status));
    expect(host.challenges).toEqual([]);
    const origin = await host.origin(signal);
    const known = [{ scheme: 'bearer', params: { realm: 'r', service: 's' } }];
    expect(host.challenges).toEqual(known);
    status = 403;
    host.learn(cannedResponse({ status: 401 }));
    host.learn(cannedResponse({ status: 200, headers: { 'www-authenticate': 'Basic realm="y"' } }));
    expect(host.challenges).toEqual(known);
    await host.send(origin, { signal });
    expect(host.challenges).toEqual(known);
    host.learn(cannedResponse({ status: 401, headers: { 'www-authenticate': 'Basic realm="y"' } }));
    expect(host.challenges).toEqual([{ scheme: 'basic', params: { realm: 'y' } }]);
  });

  it('is learnt from its own answers, not from where it led', async () => {
    let asked = '';
    const { host } = world((request) => {
      asked = URL_OF(request);
      return asked.includes('/x') ? challenged(401) : {};
    });
    await host.origin(signal);
    await host.send(new URL('https://other.test/x'), { signal });
    expect(host.challenges).toEqual([]);
    await host.send(new URL('https://r.test:5000/x'), { signal });
    expect(host.challenges).toHaveLength(1);
  });
});

describe('a request', () => {
  const TLS: TlsSettings = { ca: 'own' };
  const other: TlsSettings = { ca: 'other' };
  const tls = (name: string): TlsSettings | undefined =>
    ({ 'r.test:5000': TLS, 'other.test:99': other })[name];
  const sendTo = async (url: string, given: ReturnType<typeof world>): Promise<HttpRequest | undefined> => {
    await given.host.origin(signal);
    await given.host.send(new URL(url), { method: 'PUT', body: 'b', headers: { a: 'b' }, lane: 'l', signal });
    return given.requests.at(-1);
  };
  const common = { method: 'PUT', body: 'b', headers: { a: 'b' }, lane: 'l', signal };
  const checkAddress = expect.any(Function) as () => undefined;

  it('to the registry itself goes as it is, with its own certificates', async () => {
    const url = new URL('https://r.test:5000/x');
    expect(await sendTo(url.href, world(undefined, { tls }))).toEqual({
      ...common,
      url,
      checkAddress,
      tls: TLS,
    });
    const bare = await sendTo(url.href, world());
    expect(bare).toEqual({ ...common, url, checkAddress });
    expect(bare).not.toHaveProperty('tls');
    expect(bare).not.toHaveProperty('direct');
    expect(await sendTo(url.href, world(undefined, { tls, insecure: true }))).toMatchObject({
      tls: { ca: 'own', insecure: true },
    });
  });

  it('to a registry on plain http stays on loopback, unless the configuration allows more', async () => {
    const url = 'http://r.test:5000/x';
    const plain = await sendTo(url, world(plainOnly));
    expect(plain?.direct).toBe(true);
    expect(allowed(plain)).toEqual(['127.0.0.1']);
    const insecure = await sendTo(url, world(plainOnly, { insecure: true }));
    expect(insecure).not.toHaveProperty('direct');
    expect(allowed(insecure)).toEqual(['8.8.4.4', '10.0.0.1', '127.0.0.1', '240.0.0.1']);
  });

  it('elsewhere goes with what is known of that host, of another port of the same machine with its own', async () => {
    const known = world(undefined, { tls });
    expect(await sendTo('https://other.test:99/x', known)).toEqual({
      ...common,
      url: new URL('https://other.test:99/x'),
      checkAddress,
      direct: false,
      tls: other,
    });
    expect(await sendTo('https://unknown.test/x', known)).not.toHaveProperty('tls');
    expect((await sendTo('https://r.test:99/x', known))?.tls).toBe(TLS);
  });

  it('elsewhere on plain http stays on loopback, unless the configuration allows more', async () => {
    const plain = await sendTo('http://other.test/x', world(plainOnly));
    expect(plain?.direct).toBe(true);
    expect(allowed(plain)).toEqual(['127.0.0.1']);
    const secure = await sendTo('https://other.test/x', world(plainOnly));
    expect(secure?.direct).toBe(false);
    expect(allowed(secure)).toEqual(['8.8.4.4', '10.0.0.1', '127.0.0.1', '240.0.0.1']);
    const insecure = await sendTo('http://other.test/x', world(plainOnly, { insecure: true }));
    expect(insecure?.direct).toBe(false);
    expect(allowed(insecure)).toContain('8.8.4.4');
  });

  it.each<[string, readonly string[]]>([
    ['8.8.8.8', ['8.8.4.4']],
    // Nobody has seen where it is.
    ['', ['8.8.4.4']],
    ['10.1.1.1', ['8.8.4.4', '10.0.0.1']],
    ['240.1.1.1', ['8.8.4.4', '10.0.0.1']],
    ['127.0.0.1', ['8.8.4.4', '10.0.0.1', '127.0.0.1', '240.0.0.1']],
  ])('elsewhere from a registry at %s may go to %j', async (remoteAddress, expected) => {
    const given = world(() => ({ remoteAddress }));
    expect(allowed(await sendTo('https://other.test/x', given))).toEqual(expected);
    // What it was found at first counts, whatever it is found at later.
    if (remoteAddress !== '') given.host.learn(cannedResponse({ remoteAddress: '127.0.0.1' }));
    expect(allowed(await sendTo('https://other.test/x', given))).toEqual(expected);
  });

  it.each([
    ['r.test', ['8.8.4.4']],
    ['10.1.1.1:5000', ['8.8.4.4', '10.0.0.1']],
    ['[fd00::1]:5000', ['8.8.4.4', '10.0.0.1']],
    ['[::1]', ['8.8.4.4', '10.0.0.1', '127.0.0.1', '240.0.0.1']],
  ])('through a proxy from %s may go to %j', async (name, expected) => {
    const given = world(() => ({ remoteAddress: '127.0.0.1', proxied: true }), { name });
    expect(allowed(await sendTo('https://other.test/x', given))).toEqual(expected);
  });

  it('goes nowhere before it is known where the registry is', async () => {
    await expect(world().host.send(new URL('https://r.test:5000/'), { signal })).rejects.toThrow(
      'the origin is found first',
    );
  });
});

describe('an address that a registry names', () => {
  const check = async (url: string, reply?: (request: HttpRequest) => Canned | Error): Promise<unknown> => {
    const { host } = world(reply);
    await host.origin(signal);
    try {
      return host.checkTarget(new URL(url));
    } catch (error) {
      return error;
    }
  };

  it.each([
    ['ftp://x.test/', 'r.test:5000 led to ftp://x.test, which is refused: ftp: is no web address'],
    ['https://u@x.test/', 'r.test:5000 led to https://x.test, which is refused: it carries credentials'],
    ['https://:p@x.test/', 'r.test:5000 led to https://x.test, which is refused: it carries credentials'],
    ['http://x.test:1/', 'r.test:5000 led to http://x.test:1, which is refused: it would leave https'],
  ])('%s is refused', async (url, message) => {
    expect(await check(url)).toMatchObject({ kind: 'address', message });
  });

  it('is not asked where it is refused', async () => {
    const { host, requests } = world();
    expect(() => host.checkTarget(new URL('http://x.test/'))).not.toThrow();
    await host.origin(signal);
    await expect(host.send(new URL('ftp://x.test/'), { signal })).rejects.toThrow('ftp: is no web address');
    expect(requests).toHaveLength(1);
  });

  it('may be on https, and on plain http where the registry is', async () => {
    expect(await check('https://x.test/')).toBeUndefined();
    expect(await check('https://x.test/', plainOnly)).toBeUndefined();
    expect(await check('http://x.test/', plainOnly)).toBeUndefined();
  });
});

describe('the first look at a registry on this machine', () => {
  const names = ['localhost:5000', '127.0.0.1:5000', '127.3.2.1', '[::1]:5000'];

  it.each(names)('R40 asks %s in plain text first, at loopback alone, and needs no TLS', async (name) => {
    const { host, requests } = world(() => ({ remoteAddress: '127.0.0.1' }), { name });
    expect(await found(host)).toBe(`http://${name}`);
    expect(requests.map(URL_OF)).toEqual([`http://${name}/v2/`]);
    expect(requests[0]).toMatchObject({ direct: true, lane: 'control' });
    expect(allowed(requests[0])).toEqual(['127.0.0.1']);
  });

  it.each(['localhost.test:5000', 'r.localhost.test', '10.0.0.1:5000', '128.0.0.1', '[::2]:5000'])(
    'R40 asks %s with TLS first',
    async (name) => {
      const { host, requests } = world(() => ({}), { name });
      expect(await found(host)).toBe(`https://${name}`);
      expect(requests).toHaveLength(1);
    },
  );

  const secureOnly = (plain: Canned | Error) => (request: HttpRequest) =>
    URL_OF(request).startsWith('https:') ? { remoteAddress: '127.0.0.1' } : plain;

  it.each([
    ['answers 400', { status: 400, remoteAddress: '127.0.0.1' }],
    ['hangs up', failure('reset', 'ECONNRESET')],
    [
      'answers with what is no HTTP',
      new HttpFailure('protocol', 'no HTTP', { code: 'HPE_INVALID_CONSTANT' }),
    ],
  ])('R40 goes on with TLS where plain text %s', async (_, plain) => {
    const { host } = world(secureOnly(plain), { name: 'localhost:5000' });
    expect(await found(host)).toBe('https://localhost:5000');
  });

  it('R40 takes any other answer for that of a registry in plain text', async () => {
    for (const status of [200, 401, 403, 404, 500]) {
      const { host } = world(() => ({ status, remoteAddress: '127.0.0.1' }), { name: 'localhost:5000' });
      expect([status, await found(host)]).toEqual([status, 'http://localhost:5000']);
    }
  });

  it('says of a port where neither is spoken what plain text met, and of a bad certificate that it is bad', async () => {
    const near = { name: 'localhost:5000' };
    const nobody = world(() => failure('connect', 'ECONNREFUSED'), near);
    expect(await found(nobody.host)).toBe('connect failed');
    expect(nobody.requests).toHaveLength(1);
    const noTls = (plain: Canned | Error) => (request: HttpRequest) =>
      URL_OF(request).startsWith('https:') ? failure('tls', 'EPROTO') : plain;
    expect(await found(world(noTls(failure('reset', 'ECONNRESET')), near).host)).toBe('reset failed');
    expect(await found(world(noTls({ status: 400 }), near).host)).toBe('http://localhost:5000');
    const bad = (request: HttpRequest) =>
      URL_OF(request).startsWith('https:')
        ? failure('tls', 'CERT_HAS_EXPIRED')
        : failure('reset', 'ECONNRESET');
    expect(await found(world(bad, near).host)).toBe('tls failed');
  });
});

describe('several who look at once', () => {
  it('share one look', async () => {
    const { host, requests } = world();
    const [one, two] = await Promise.all([host.origin(signal), host.origin(signal)]);
    expect(one).toBe(two);
    expect(requests).toHaveLength(1);
  });

  it('share its failure, and the next one looks again', async () => {
    let down = true;
    const { host, requests } = world(() => (down ? failure('timeout') : {}));
    expect(await Promise.all([found(host), found(host)])).toEqual(['timeout failed', 'timeout failed']);
    expect(requests).toHaveLength(1);
    down = false;
    expect(await found(host)).toBe('https://r.test:5000');
  });

  it('do not give up with the one whose look it was', async () => {
    const leaving = new AbortController();
    const { host, requests } = world((request) => {
      if (request.signal !== leaving.signal) return {};
      leaving.abort();
      return new Error('given up');
    });
    const first = host.origin(leaving.signal);
    const second = host.origin(signal);
    await expect(first).rejects.toThrow('given up');
    expect((await second).origin).toBe('https://r.test:5000');
    expect(requests).toHaveLength(2);
  });
});
