import { isIP } from 'node:net';
import {
  type AddressCheck,
  allowAddresses,
  classifyAddress,
  type HttpClient,
  HttpFailure,
  type HttpRequest,
  type HttpResponse,
  isHttpFailure,
  namesLoopback,
  type TlsSettings,
} from '../../../kernel/http/index.ts';
import { type Challenge, parseChallenges } from './challenge.ts';

const NAMED = allowAddresses(['public', 'private', 'loopback', 'reserved']);
const PUBLIC = allowAddresses(['public']);
const NEAR = allowAddresses(['public', 'private']);
const LOOPBACK = allowAddresses(['loopback']);
const SOMEWHERE_PUBLIC = '1.1.1.1';
const BAD_REQUEST = 400;

export type HostRequest = Omit<HttpRequest, 'url' | 'checkAddress' | 'tls' | 'direct'>;

/** One `host[:port]` as we have come to know it: its scheme, where it lies, how it wants us to authenticate. */
export interface Host {
  readonly name: string;
  /** Finds the scheme; the first call talks to the host. */
  origin(signal: AbortSignal): Promise<URL>;
  /** The last challenges without their scopes, which were another request's: best known before one's own refusal. */
  readonly challenges: readonly Challenge[];
  learn(response: HttpResponse): void;
  /** To this host, or to where it led; then under the rules for such addresses. */
  send(url: URL, request: HostRequest): Promise<HttpResponse>;
  /** True where `url` may be asked at all; throws `HttpFailure` `address` with the reason. */
  checkTarget(url: URL): void;
}

export interface HostSettings {
  readonly insecure: boolean;
  readonly tls: (host: string) => TlsSettings | undefined;
}

export function makeHost(http: HttpClient, name: string, settings: HostSettings): Host {
  let origin: URL | undefined;
  let looking: { readonly signal: AbortSignal; readonly found: Promise<URL> } | undefined;
  let nearest: 'public' | 'private' | 'loopback' | undefined;
  let challenges: readonly Challenge[] = [];
  const given = settings.tls(name);
  const tls: TlsSettings | undefined = settings.insecure ? { ...given, insecure: true } : given;

  // One function each, since kept connections are kept per check. A host that was public stays public.
  const own: AddressCheck = (address) => (nearest === 'public' ? PUBLIC(address) : NAMED(address));
  const onward: AddressCheck = (address) => {
    if (nearest === 'public' || nearest === undefined) return PUBLIC(address);
    return nearest === 'private' ? NEAR(address) : NAMED(address);
  };

  function learn(response: HttpResponse): void {
    const address = addressOf(response, name);
    if (address !== undefined && nearest === undefined) {
      const found = classifyAddress(address);
      // A reserved network that somebody uses anyway is theirs: nearer than what is public.
      nearest = found === 'loopback' ? found : found === 'public' ? 'public' : 'private';
    }
    const found = parseChallenges(response.values('www-authenticate'));
    if (response.status === 401 && found.length > 0) challenges = found.map(withoutScope);
  }

  async function ping(
    base: string,
    request: Pick<HttpRequest, 'checkAddress' | 'direct' | 'signal'>,
  ): Promise<{ readonly base: URL; readonly status: number }> {
    const response = await http.request({
      ...request,
      url: `${base}/v2/`,
      headers: { accept: 'application/json' },
      lane: 'control',
      ...(tls === undefined ? {} : { tls }),
    });
    learn(response);
    await response.discard();
    return { base: new URL(base), status: response.status };
  }

  /** Never quietly down to plain text: only where the configuration says so, or the connected address is loopback. */
  const plain = (signal: AbortSignal) =>
    settings.insecure
      ? ping(`http://${name}`, { checkAddress: own, signal })
      : ping(`http://${name}`, { checkAddress: LOOPBACK, direct: true, signal });

  const secure = (signal: AbortSignal) => ping(`https://${name}`, { checkAddress: own, signal });

  async function detect(signal: AbortSignal): Promise<URL> {
    if (namesLoopback(new URL(`http://${name}`))) return await detectNear(signal);
    try {
      return (await secure(signal)).base;
    } catch (error) {
      if (!speaksNoTls(error)) throw error;
      try {
        return (await plain(signal)).base;
      } catch (second) {
        if (isHttpFailure(second, 'address')) throw error;
        throw second;
      }
    }
  }

  /**
   * On this machine both ways are as good, and plain text is the usual one: a look for TLS first would read all root
   * certificates, which takes longer than a small push. Who speaks TLS hangs up on plain text, or answers with 400.
   */
  async function detectNear(signal: AbortSignal): Promise<URL> {
    let first: Error | undefined;
    try {
      const { base, status } = await plain(signal);
      if (status !== BAD_REQUEST) return base;
    } catch (error) {
      if (signal.aborted || !refusesPlain(error)) throw error;
      first = error as Error;
    }
    try {
      return (await secure(signal)).base;
    } catch (error) {
      if (!speaksNoTls(error)) throw error;
      if (first === undefined) return new URL(`http://${name}`);
      throw first;
    }
  }

  /** One look for all who want to know; one whose caller gives up is no answer for the others. */
  async function look(signal: AbortSignal): Promise<URL> {
    for (;;) {
      looking ??= {
        signal,
        found: detect(signal).finally(() => {
          looking = undefined;
        }),
      };
      const { signal: theirs, found } = looking;
      try {
        return await found;
      } catch (error) {
        if (theirs === signal || signal.aborted || !theirs.aborted) throw error;
      }
    }
  }

  function checkTarget(url: URL): void {
    if (url.protocol !== 'https:' && url.protocol !== 'http:')
      throw refuse(url, `${url.protocol} is no web address`);
    if (url.username !== '' || url.password !== '') throw refuse(url, 'it carries credentials');
    if (origin?.protocol === 'https:' && url.protocol === 'http:') throw refuse(url, 'it would leave https');
  }

  function refuse(url: URL, why: string): HttpFailure {
    return new HttpFailure(
      'address',
      `${name} led to ${url.protocol}//${url.host}, which is refused: ${why}`,
    );
  }

  return {
    name,
    get challenges() {
      return challenges;
    },
    learn,
    origin: async (signal) => {
      origin ??= await look(signal);
      return origin;
    },
    checkTarget,
    send: async (url, request) => {
      if (origin === undefined) throw new Error('the origin is found first');
      if (url.origin === origin.origin) {
        const plain = origin.protocol === 'http:' && !settings.insecure;
        const response = await http.request({
          ...request,
          url,
          checkAddress: plain ? LOOPBACK : own,
          ...(plain ? { direct: true } : {}),
          ...(tls === undefined ? {} : { tls }),
        });
        learn(response);
        return response;
      }
      checkTarget(url);
      const loopbackOnly = url.protocol === 'http:' && !settings.insecure;
      // Another port of the same machine (its token server) is trusted as the registry itself is.
      const theirs = url.hostname === origin.hostname ? tls : settings.tls(url.host);
      return await http.request({
        ...request,
        url,
        checkAddress: loopbackOnly ? LOOPBACK : onward,
        direct: loopbackOnly,
        ...(theirs === undefined ? {} : { tls: theirs }),
      });
    },
  };
}

/**
 * The peer's own address. Behind a proxy nobody has seen it, and the proxy's says nothing about it: then it counts as
 * public, the strictest, unless the name is an address itself.
 */
function addressOf(response: HttpResponse, name: string): string | undefined {
  if (response.proxied !== true) return response.remoteAddress;
  const literal = new URL(`http://${name}`).hostname.replace(/[[\]]/g, '');
  return isIP(literal) === 0 ? SOMEWHERE_PUBLIC : literal;
}

/** GitHub's registry names an example repository at `/v2/`; whoever asked for that would be refused. */
function withoutScope({ scheme, params }: Challenge): Challenge {
  const { scope: _, ...others } = params;
  return { scheme, params: others };
}

/** Somebody is there, and hangs up or says what is no HTTP. Who is silent, or only puts off, would do so to TLS too. */
function refusesPlain(error: unknown): boolean {
  if (isHttpFailure(error, 'protocol')) return error.code !== undefined;
  return !isHttpFailure(error, 'connect') && !isHttpFailure(error, 'timeout');
}

/** Nothing listens for TLS there: refused, or the answer to our hello is no TLS. A bad certificate is not this. */
function speaksNoTls(error: unknown): boolean {
  if (isHttpFailure(error, 'connect')) return true;
  if (isHttpFailure(error, 'reset')) return error.code === 'ECONNRESET' || error.code === 'EPIPE';
  return (
    isHttpFailure(error, 'tls') &&
    /^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|UNKNOWN_PROTOCOL|TLSV1_UNRECOGNIZED_NAME))$/.test(
      error.code ?? '',
    )
  );
}
