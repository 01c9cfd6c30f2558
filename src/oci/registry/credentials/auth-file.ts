import { ociError } from '../../errors.ts';
import { isObject, type JsonObject, parseStrictJson } from '../../image/json.ts';
import type { Credential } from '../client/types.ts';
import type { AuthLocation } from './locations.ts';

/** What a file says about one host. */
export type Found =
  | { readonly kind: 'helper'; readonly helper: string; readonly server: string }
  | { readonly kind: 'credential'; readonly credential: Credential };

/** The key that Docker itself stores Docker Hub under. */
export const DOCKER_HUB_KEY = 'https://index.docker.io/v1/';
const DOCKER_HUB_NAMES = ['docker.io', 'index.docker.io', 'registry-1.docker.io'];
const HELPER = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** @throws CREDENTIALS_FILE_INVALID, without any of the file's content */
export function parseAuthFile(bytes: Uint8Array, location: AuthLocation): JsonObject {
  let value: unknown;
  try {
    value = bytes.length === 0 ? {} : parseStrictJson(bytes, location.path);
  } catch {
    throw invalid(location.path, 'it is not JSON with each key once');
  }
  if (!isObject(value)) throw invalid(location.path, 'it is no JSON object');
  return location.kind === 'legacy' ? { auths: value } : value;
}

export function invalid(path: string, problem: string): Error {
  return ociError('CREDENTIALS_FILE_INVALID', `the credentials file ${path} is refused: ${problem}`, {
    hint: 'correct or remove the file, then log in again',
    place: { file: path },
  });
}

/**
 * In order of precedence: the helper for exactly this host, the helper for all, the entries in the file. Hosts are
 * compared whole (a part of a name is another's); of entries for a path below the host the longest counts.
 */
export function lookUp(
  file: JsonObject,
  target: { readonly host: string; readonly repository: string },
  path: string,
): readonly Found[] {
  const helpers = helpersFor(file, target.host, path);
  const server = serverName(target.host);
  const found: Found[] = helpers.map((helper) => ({ kind: 'helper', helper, server }));
  const entry = entryFor(file, hostNames(target.host), target.repository);
  const credential = entry === undefined ? undefined : credentialOf(entry, path);
  return credential === undefined ? found : [...found, { kind: 'credential', credential }];
}

/** Names of the helpers that keep this host's credentials, most specific first. */
export function helpersFor(file: JsonObject, host: string, path: string): readonly string[] {
  const names = hostNames(host);
  const byHost = isObject(file.credHelpers) ? file.credHelpers : {};
  const exact = Object.entries(byHost).filter(([key]) => names.includes(normalKey(key)));
  const store = file.credsStore;
  const all = store === undefined || store === '' ? [] : [store];
  return [...exact.map(([, helper]) => helper), ...all].map((helper) => helperName(helper, path));
}

function helperName(value: unknown, path: string): string {
  if (typeof value === 'string' && HELPER.test(value)) return value;
  throw invalid(path, 'a credential helper has no proper name');
}

/** What helpers are asked for. */
export function serverName(host: string): string {
  return DOCKER_HUB_NAMES.includes(host) ? DOCKER_HUB_KEY : host;
}

export function hostNames(host: string): readonly string[] {
  return DOCKER_HUB_NAMES.includes(host) ? DOCKER_HUB_NAMES : [host.toLowerCase()];
}

/** Older files have keys like `https://host/v1/`. */
export function normalKey(key: string): string {
  const bare = key
    .replace(/^https?:\/\//i, '')
    .replace(/\/+$/, '')
    .replace(/\/v[12]$/, '');
  const slash = bare.indexOf('/');
  return slash === -1 ? bare.toLowerCase() : bare.slice(0, slash).toLowerCase() + bare.slice(slash);
}

function entryFor(file: JsonObject, names: readonly string[], repository: string): JsonObject | undefined {
  const auths = isObject(file.auths) ? file.auths : {};
  const parts = repository.split('/');
  const paths = [...parts.keys()].map((index) => `/${parts.slice(0, parts.length - index).join('/')}`);
  for (const path of [...paths, '']) {
    for (const name of names) {
      const key = Object.keys(auths).find((candidate) => normalKey(candidate) === `${name}${path}`);
      const entry = key === undefined ? undefined : auths[key];
      if (isObject(entry) && Object.keys(entry).length > 0) return entry;
    }
  }
  return undefined;
}

function credentialOf(entry: JsonObject, path: string): Credential | undefined {
  const text = (key: string): string | undefined => {
    const value = entry[key];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const registryToken = text('registrytoken');
  if (registryToken !== undefined) return { kind: 'registry-token', token: registryToken };
  const [username, password] = pair(text('auth'), path) ?? [text('username'), text('password')];
  const identityToken = text('identitytoken');
  if (identityToken !== undefined) {
    return {
      kind: 'identity-token',
      token: identityToken,
      ...(username === undefined || username === '' ? {} : { username }),
    };
  }
  if (username === undefined || password === undefined) return undefined;
  return { kind: 'basic', username, password };
}

/** base64 of `user:password`; the password may hold colons. */
function pair(auth: string | undefined, path: string): readonly [string, string] | undefined {
  if (auth === undefined) return undefined;
  const decoded = Buffer.from(auth, 'base64').toString('utf8').replace(/\0+$/, '');
  const colon = decoded.indexOf(':');
  if (colon === -1) throw invalid(path, 'an entry is not base64 of user:password');
  return [decoded.slice(0, colon), decoded.slice(colon + 1)];
}

/** The file with an entry set or removed, everything else as it was. */
export function withEntry(file: JsonObject, host: string, entry: JsonObject | undefined): JsonObject {
  const auths = isObject(file.auths) ? file.auths : {};
  const names = hostNames(host);
  const kept = Object.entries(auths).filter(([key]) => !names.includes(normalKey(key)));
  const added = entry === undefined ? [] : [[serverName(host), entry] as const];
  return { ...file, auths: Object.fromEntries([...kept, ...added]) };
}

export function hasEntry(file: JsonObject, host: string): boolean {
  const names = hostNames(host);
  return isObject(file.auths) && Object.keys(file.auths).some((key) => names.includes(normalKey(key)));
}
