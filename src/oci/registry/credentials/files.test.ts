import { describe, expect, it } from 'vitest';
import {
  type Found,
  hasEntry,
  lookUp,
  normalKey,
  parseAuthFile,
  serverName,
  withEntry,
} from './auth-file.ts';
import { authLocations, helpersOf, loginLocation } from './locations.ts';

const path = '/x/config.json';
const b64 = (text: string): string => Buffer.from(text).toString('base64');
const parse = (text: string, kind: 'docker' | 'legacy' = 'docker') =>
  parseAuthFile(Buffer.from(text), { path, kind });
const find = (file: Parameters<typeof lookUp>[0], host = 'r.test', repository = 'a/b'): readonly Found[] =>
  lookUp(file, { host, repository }, path);
const one = (entry: object, host?: string): unknown => {
  const found = find({ auths: { 'r.test': entry } }, host)[0];
  return found?.kind === 'credential' ? found.credential : found;
};
const refusal = (problem: string): object =>
  expect.objectContaining({
    code: 'CREDENTIALS_FILE_INVALID',
    message: `the credentials file ${path} is refused: ${problem}`,
    hint: 'correct or remove the file, then log in again',
    place: { file: path },
  });

describe('a file of credentials', () => {
  it('may be empty; an old one is the map of hosts alone', () => {
    expect(parse('')).toEqual({});
    expect(parse('{"a":1}')).toEqual({ a: 1 });
    expect(parse('{"r.test":{}}', 'legacy')).toEqual({ auths: { 'r.test': {} } });
  });

  it.each([
    ['{', 'it is not JSON with each key once'],
    ['{"a":1,"a":2}', 'it is not JSON with each key once'],
    ['[]', 'it is no JSON object'],
    ['null', 'it is no JSON object'],
  ])('with %s is refused, and where', (text, problem) => {
    expect(() => parse(text)).toThrow(refusal(problem));
  });

  it('with a pair that is none, or a helper that is no name, is refused', () => {
    expect(() => one({ auth: b64('no pair') })).toThrow(refusal('an entry is not base64 of user:password'));
    const name = refusal('a credential helper has no proper name');
    for (const helper of ['', 'a b', '-a', '.a', 'a/b', 'a\n', 7, null]) {
      expect(() => find({ credHelpers: { 'r.test': helper } })).toThrow(name);
      if (helper !== '') expect(() => find({ credsStore: helper })).toThrow(name);
    }
  });

  it('names helpers of one letter or more', () => {
    for (const helper of ['a', 'A9', '0._-z'])
      expect(find({ credsStore: helper })).toEqual([{ kind: 'helper', helper, server: 'r.test' }]);
    expect(find({ credsStore: '' })).toEqual([]);
    expect(find({ credHelpers: ['x'], auths: ['x'] })).toEqual([]);
  });

  it.each<[object, unknown]>([
    [{}, undefined],
    [{ auth: '' }, undefined],
    [{ auth: 7 }, undefined],
    [{ username: 'u' }, undefined],
    [{ password: 'p' }, undefined],
    [{ username: 'u', password: '' }, undefined],
    [
      { username: 'u', password: 'p' },
      { kind: 'basic', username: 'u', password: 'p' },
    ],
    [
      { auth: b64('a:b'), username: 'u', password: 'p' },
      { kind: 'basic', username: 'a', password: 'b' },
    ],
    [{ auth: b64(':') }, { kind: 'basic', username: '', password: '' }],
    [{ auth: b64('a:b\0\0') }, { kind: 'basic', username: 'a', password: 'b' }],
    [{ auth: b64('a:\0b') }, { kind: 'basic', username: 'a', password: '\0b' }],
    [{ identitytoken: 'i' }, { kind: 'identity-token', token: 'i' }],
    [
      { identitytoken: 'i', auth: b64(':') },
      { kind: 'identity-token', token: 'i' },
    ],
    [
      { identitytoken: 'i', auth: b64('a:b') },
      { kind: 'identity-token', token: 'i', username: 'a' },
    ],
    [
      { identitytoken: 'i', username: 'u' },
      { kind: 'identity-token', token: 'i', username: 'u' },
    ],
    [
      { registrytoken: '', username: 'u', password: 'p' },
      { kind: 'basic', username: 'u', password: 'p' },
    ],
    [
      { registrytoken: 'r', auth: b64('no pair') },
      { kind: 'registry-token', token: 'r' },
    ],
  ])('with the entry %j has %j', (entry, credential) => {
    expect(one(entry)).toEqual(credential);
  });

  it('has its entries for a path, then for the host; one that says nothing is passed over', () => {
    const auths = {
      'r.test': { username: 'host', password: 'p' },
      'r.test/a': { username: 'a', password: 'p' },
      'r.test/a/b': {},
      'r.test/a/b/c': 'none',
    };
    const user = (repository: string): unknown => find({ auths }, 'r.test', repository)[0];
    const of = (username: string) => ({
      kind: 'credential',
      credential: { kind: 'basic', username, password: 'p' },
    });
    expect(['a/b/c', 'a/b', 'a/x', 'a', 'b/a'].map(user)).toEqual(['a', 'a', 'a', 'a', 'host'].map(of));
    const hub = { 'docker.io': {}, 'index.docker.io': { username: 'second', password: 'p' } };
    expect(find({ auths: hub }, 'registry-1.docker.io')).toEqual([of('second')]);
  });

  it.each([
    ['r.test', 'r.test'],
    ['R.Test', 'r.test'],
    ['HTTP://r.test', 'r.test'],
    ['https://r.test//', 'r.test'],
    ['https://r.test/v1/', 'r.test'],
    ['r.test/v2', 'r.test'],
    ['r.test/v3', 'r.test/v3'],
    ['r.test/v1/x', 'r.test/v1/x'],
    ['R.test/Team/App', 'r.test/Team/App'],
    ['ftp://r.test', 'ftp://r.test'],
    ['xhttp://r.test', 'xhttp://r.test'],
    ['r.test/xv1', 'r.test/xv1'],
  ])('has under the key %s what is for %s', (key, normal) => {
    expect(normalKey(key)).toBe(normal);
  });

  it('gets an entry in place of those of the same host, and loses them', () => {
    const file = { x: 1, auths: { 'https://R.test/v1/': { auth: 'old' }, 's.test': { auth: 's' } } };
    expect(withEntry(file, 'r.test', { auth: 'new' })).toEqual({
      x: 1,
      auths: { 's.test': { auth: 's' }, 'r.test': { auth: 'new' } },
    });
    expect(withEntry(file, 'r.test', undefined)).toEqual({ x: 1, auths: { 's.test': { auth: 's' } } });
    expect(withEntry({ auths: 7 }, 'docker.io', {})).toEqual({
      auths: { 'https://index.docker.io/v1/': {} },
    });
    expect([hasEntry(file, 'r.test'), hasEntry(file, 's'), hasEntry({ auths: 7 }, 'r.test')]).toEqual([
      true,
      false,
      false,
    ]);
    expect(['docker.io', 'index.docker.io', 'registry-1.docker.io', 'r.test'].map(serverName)).toEqual([
      ...Array.from({ length: 3 }, () => 'https://index.docker.io/v1/'),
      'r.test',
    ]);
  });
});

describe('where credentials are', () => {
  const docker = { path: '/h/.docker/config.json', kind: 'docker' };
  const podman = { path: '/h/.config/containers/auth.json', kind: 'podman' };
  const legacy = { path: '/h/.dockercfg', kind: 'legacy' };
  const all = (env: Readonly<Record<string, string>>) => authLocations({ env, home: '/h' });
  const login = (env: Readonly<Record<string, string>>) => loginLocation({ env, home: '/h' });

  it('is where programs look', () => {
    expect(all({})).toEqual([podman, docker, legacy]);
    const empty = { REGISTRY_AUTH_FILE: '', DOCKER_CONFIG: '', XDG_RUNTIME_DIR: '', XDG_CONFIG_HOME: '' };
    expect(all(empty)).toEqual([podman, docker, legacy]);
    expect(all({ REGISTRY_AUTH_FILE: '/r', DOCKER_CONFIG: '/d', XDG_RUNTIME_DIR: '/u' })).toEqual([
      { path: '/r', kind: 'podman' },
      { path: '/d/config.json', kind: 'docker' },
      { path: '/u/containers/auth.json', kind: 'podman' },
      podman,
      legacy,
    ]);
    // One that is named twice is looked into once.
    expect(all({ DOCKER_CONFIG: '/h/.docker' })).toEqual([docker, podman, legacy]);
    expect(all({ REGISTRY_AUTH_FILE: docker.path })).toEqual([{ ...docker, kind: 'podman' }, podman, legacy]);
  });

  it('is one file for a login: what a variable names, else that of Docker', () => {
    expect(login({})).toEqual(docker);
    expect(login({ XDG_RUNTIME_DIR: '/u', XDG_CONFIG_HOME: '/c' })).toEqual(docker);
    expect(login({ REGISTRY_AUTH_FILE: '', DOCKER_CONFIG: '' })).toEqual(docker);
    expect(login({ DOCKER_CONFIG: '/d' })).toEqual({ path: '/d/config.json', kind: 'docker' });
    expect(login({ REGISTRY_AUTH_FILE: '/r', DOCKER_CONFIG: '/d' })).toEqual({ path: '/r', kind: 'podman' });
  });

  it('is the files alone where no helpers are named', () => {
    const environment = { env: {}, home: '/h' };
    expect(helpersOf(environment)).toEqual(['containers-auth.json']);
    expect(helpersOf({ ...environment, helpers: [] })).toEqual(['containers-auth.json']);
    expect(helpersOf({ ...environment, helpers: ['a'] })).toEqual(['a']);
  });
});
