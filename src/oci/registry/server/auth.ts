import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isRepositoryPath } from '../../names/index.ts';
import { type Exchange, Refused, readBody, reply } from './reply.ts';
import type { Route } from './route.ts';
import type { ServeAuth } from './types.ts';

/** Who asks, and what for: the token service and the check before every answer. */
export interface Gate {
  /** @throws Refused 401 with a challenge */
  check(exchange: Exchange, route: Route): void;
  /** The token service, `GET` and `POST` (OAuth2) on `/token`. */
  issue(exchange: Exchange): Promise<void>;
}

export interface GateOptions {
  readonly auth: ServeAuth | undefined;
  /** Actions that the server allows at all: `pull`, `push`, `delete`. */
  readonly actions: readonly string[];
  readonly scheme: 'http' | 'https';
}

interface Access {
  readonly type: string;
  readonly name: string;
  readonly actions: readonly string[];
}

interface Claims {
  readonly use: 'access' | 'refresh';
  readonly user: string;
  /** Milliseconds since 1970. */
  readonly expires: number;
  readonly access: readonly Access[];
}

const SERVICE = 'skycap';
const TOKEN_SECONDS = 300;
const REFRESH_SECONDS = 24 * 3600;
const ANYONE = '';
const LARGEST_FORM = 16 * 1024;
const MOST_SCOPES = 32;

export function makeGate({ auth, actions, scheme }: GateOptions): Gate {
  if (auth === undefined) return { check: () => {}, issue: async () => unknown() };
  const { kind, users, anonymousPull = false, now = Date.now } = auth;
  const secret = randomBytes(32);

  const userOf = (name: string, password: string): string | undefined =>
    // A name that nobody has costs as much time as a wrong password.
    same(password, Object.hasOwn(users, name) ? (users[name] as string) : randomBytes(16).toString('hex'))
      ? name
      : undefined;

  const allowed = (user: string, wanted: Access): readonly string[] => {
    const known = user !== ANYONE;
    if (wanted.type === 'registry') return wanted.name === 'catalog' && known ? wanted.actions : [];
    if (wanted.type !== 'repository' || !isRepositoryPath(wanted.name)) return [];
    const all = known ? actions : anonymousPull ? ['pull'] : [];
    return wanted.actions.includes('*') ? all : wanted.actions.filter((action) => all.includes(action));
  };

  /** What the request's header gives it; undefined where it is wrong or not there. */
  const accessOf = (exchange: Exchange): ((wanted: Access) => boolean) | undefined => {
    const header = exchange.request.headers.authorization;
    if (kind === 'basic') {
      const user = header === undefined && anonymousPull ? ANYONE : basicUser(header, userOf);
      return user === undefined
        ? undefined
        : (wanted) => allowed(user, wanted).length === wanted.actions.length;
    }
    const text = /^Bearer +(\S+)$/i.exec(header ?? '')?.[1];
    const claims = text === undefined ? undefined : readToken(text, secret);
    if (claims?.use !== 'access' || claims.expires <= now()) return undefined;
    return (wanted) =>
      wanted.actions.every((action) =>
        claims.access.some(
          (access) =>
            access.type === wanted.type && access.name === wanted.name && access.actions.includes(action),
        ),
      );
  };

  const challenge = (exchange: Exchange, wanted: readonly Access[]): Refused => {
    // By which the caller knows this server: looked at before.
    const host = exchange.request.headers.host as string;
    const realm = kind === 'basic' ? 'realm="skycap"' : `realm="${scheme}://${host}/token"`;
    const scope = wanted.length === 0 ? '' : `,scope="${wanted.map(formatAccess).join(' ')}"`;
    const value = kind === 'basic' ? `Basic ${realm}` : `Bearer ${realm},service="${SERVICE}"${scope}`;
    return new Refused(401, 'UNAUTHORIZED', 'authentication is needed here', { 'www-authenticate': value });
  };

  return {
    check: (exchange, route) => {
      // What nobody may do here is told apart from what this user may not do.
      const wanted = needed(exchange, route, actions);
      const access = accessOf(exchange);
      if (access === undefined || !wanted.every(access)) throw challenge(exchange, wanted);
    },
    issue: async (exchange) => {
      if (kind !== 'token') unknown();
      const form = await formOf(exchange);
      const user = askingUser(exchange, form, { userOf, secret, now });
      if (user === undefined) throw new Refused(401, 'UNAUTHORIZED', 'wrong user name or password');
      const access = form
        .getAll('scope')
        .flatMap((scope) => scope.split(' '))
        .slice(0, MOST_SCOPES)
        .flatMap((scope) => parseAccess(scope) ?? [])
        .map((wanted) => ({ ...wanted, actions: allowed(user, wanted) }));
      const sign = (use: Claims['use'], seconds: number): string =>
        writeToken(
          { use, user, expires: now() + seconds * 1000, access: use === 'access' ? access : [] },
          secret,
        );
      const token = sign('access', TOKEN_SECONDS);
      const offline = form.get('offline_token') === 'true' || form.get('access_type') === 'offline';
      reply(
        exchange,
        200,
        { 'content-type': 'application/json', 'cache-control': 'no-store' },
        JSON.stringify({
          token,
          access_token: token,
          expires_in: TOKEN_SECONDS,
          issued_at: new Date(now()).toISOString(),
          ...(offline && user !== ANYONE ? { refresh_token: sign('refresh', REFRESH_SECONDS) } : {}),
        }),
      );
    },
  };
}

function unknown(): never {
  throw new Refused(404, 'NAME_UNKNOWN', 'no such address');
}

/** What a request needs beside being known. */
function needed(exchange: Exchange, route: Route, offered: readonly string[]): readonly Access[] {
  if (route.kind === 'catalog') return [{ type: 'registry', name: 'catalog', actions: ['*'] }];
  if (!('repository' in route)) return [];
  const repository = (name: string, ...actions: readonly string[]): Access => ({
    type: 'repository',
    name,
    actions: actions.filter((action) => offered.includes(action)),
  });
  const { method } = exchange;
  if (route.kind === 'uploads') {
    const from = exchange.query.get('from');
    const source = from !== null && isRepositoryPath(from) ? [repository(from, 'pull')] : [];
    return [repository(route.repository, 'pull', 'push'), ...source];
  }
  if (route.kind === 'upload') return [repository(route.repository, 'pull', 'push')];
  if (method === 'GET' || method === 'HEAD') return [repository(route.repository, 'pull')];
  return [
    method === 'DELETE'
      ? repository(route.repository, 'delete')
      : repository(route.repository, 'pull', 'push'),
  ];
}

async function formOf(exchange: Exchange): Promise<URLSearchParams> {
  if (exchange.method === 'GET') return exchange.query;
  if (exchange.method !== 'POST') throw new Refused(405, 'UNSUPPORTED', 'no such operation');
  return new URLSearchParams(Buffer.from(await readBody(exchange, LARGEST_FORM)).toString('utf8'));
}

interface Asking {
  readonly userOf: (name: string, password: string) => string | undefined;
  readonly secret: Buffer;
  readonly now: () => number;
}

/** Who asks for a token: by header, by the form's password or refresh token, or nobody in particular. */
function askingUser(exchange: Exchange, form: URLSearchParams, asking: Asking): string | undefined {
  const { userOf, secret, now } = asking;
  const header = exchange.request.headers.authorization;
  if (header !== undefined) return basicUser(header, userOf);
  if (exchange.method === 'GET') return ANYONE;
  if (form.get('grant_type') === 'password')
    return userOf(form.get('username') ?? '', form.get('password') ?? '');
  if (form.get('grant_type') !== 'refresh_token') return undefined;
  const claims = readToken(form.get('refresh_token') ?? '', secret);
  return claims?.use === 'refresh' && claims.expires > now() ? claims.user : undefined;
}

function basicUser(header: string | undefined, userOf: Asking['userOf']): string | undefined {
  const encoded = /^Basic +(\S+)$/i.exec(header ?? '')?.[1];
  if (encoded === undefined) return undefined;
  const [name = '', password = ''] = Buffer.from(encoded, 'base64').toString('utf8').split(/:(.*)/s, 2);
  return name === ANYONE ? undefined : userOf(name, password);
}

/** `type:name:action,action`; a name may have colons of its own. */
function parseAccess(text: string): Access | undefined {
  const match = /^([a-z]+):(.+):([a-z*,]+)$/.exec(text);
  if (match === null) return undefined;
  return { type: match[1] as string, name: match[2] as string, actions: (match[3] as string).split(',') };
}

function formatAccess({ type, name, actions }: Access): string {
  return `${type}:${name}:${actions.join(',')}`;
}

function writeToken(claims: Claims, secret: Buffer): string {
  const body = Buffer.from(JSON.stringify(claims)).toString('base64url');
  return `${body}.${seal(body, secret)}`;
}

function readToken(text: string, secret: Buffer): Claims | undefined {
  const match = /^([\w-]+)\.([\w-]+)$/.exec(text);
  if (match === null) return undefined;
  const [body, signature] = match.slice(1) as [string, string];
  if (!same(signature, seal(body, secret))) return undefined;
  return JSON.parse(Buffer.from(body, 'base64url').toString('utf8')) as Claims;
}

function seal(body: string, secret: Buffer): string {
  return createHmac('sha256', secret).update(body).digest('base64url');
}

/** Takes as long for any two texts. */
function same(left: string, right: string): boolean {
  const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(left), hash(right));
}
