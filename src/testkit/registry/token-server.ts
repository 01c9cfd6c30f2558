import { sign, X509Certificate } from 'node:crypto';
import { TEST_SERVER_CERT, TEST_SERVER_KEY } from './certificates.ts';
import { type Asked, type Reply, type ScriptedRegistry, scriptedRegistry } from './scripted.ts';

export interface TokenServerOptions {
  readonly issuer: string;
  /** Passwords by user name. Without credentials one may only pull. */
  readonly users: Readonly<Record<string, string>>;
  /** User names by refresh token. */
  readonly refreshTokens?: Readonly<Record<string, string>>;
  /** Takes away what may not be had, e.g. by repository. Default: all actions for users, pull for anyone else. */
  readonly grant?: (user: string | undefined, scope: Scope) => readonly string[];
}

export interface Scope {
  readonly type: string;
  readonly name: string;
  readonly actions: readonly string[];
}

/** Docker's token server ("Token Authentication Specification"), for registries that trust the test authority. */
export async function tokenServer(
  options: TokenServerOptions,
): Promise<ScriptedRegistry & { readonly realm: string }> {
  const grant =
    options.grant ??
    ((user, scope) =>
      user === undefined ? scope.actions.filter((action) => action === 'pull') : scope.actions);
  const answer = (asked: Asked): Reply => {
    const form = asked.method === 'POST' ? new URLSearchParams(asked.body.toString()) : asked.query;
    const user = userOf(asked, form, options);
    if (user === 'refused')
      return {
        status: 401,
        body: '{"errors":[{"code":"UNAUTHORIZED","message":"incorrect username or password"}]}',
      };
    const scopes = form
      .getAll('scope')
      .flatMap((scope) => scope.split(' '))
      .filter((scope) => scope !== '');
    const access = scopes.map(parseScope).map((scope) => ({ ...scope, actions: grant(user, scope) }));
    const token = jwt({ iss: options.issuer, aud: form.get('service') ?? '', sub: user ?? '', access });
    return {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, access_token: token, expires_in: 60 }),
    };
  };
  const server = await scriptedRegistry({ '* /token': answer });
  return {
    ...server,
    realm: `http://${server.host}/token`,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function userOf(asked: Asked, form: URLSearchParams, options: TokenServerOptions): string | undefined {
  const refresh = form.get('refresh_token');
  if (refresh !== null) return options.refreshTokens?.[refresh] ?? 'refused';
  const header = /^Basic (.+)$/.exec(asked.headers.authorization ?? '')?.[1];
  const [name, password] =
    header === undefined
      ? [form.get('username'), form.get('password')]
      : Buffer.from(header, 'base64').toString().split(/:(.*)/s, 2);
  if (name === null || name === undefined) return undefined;
  return options.users[name] === password ? name : 'refused';
}

function parseScope(text: string): Scope {
  const [type = '', ...rest] = text.split(':');
  return { type, name: rest.slice(0, -1).join(':'), actions: (rest.at(-1) ?? '').split(',') };
}

function jwt(claims: object): string {
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const x5c = [new X509Certificate(TEST_SERVER_CERT).raw.toString('base64')];
  const now = Math.floor(Date.now() / 1000);
  const times = { nbf: now - 5, iat: now - 5, exp: now + 300, jti: `${now}-${Math.random()}` };
  const body = `${encode({ typ: 'JWT', alg: 'ES256', x5c })}.${encode({ ...claims, ...times })}`;
  const signature = sign('sha256', Buffer.from(body), { key: TEST_SERVER_KEY, dsaEncoding: 'ieee-p1363' });
  return `${body}.${signature.toString('base64url')}`;
}
