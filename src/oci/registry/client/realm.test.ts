import { expect, it } from 'vitest';
import type { Host } from './host.ts';
import { checkRealm } from './realm.ts';

const check = (
  realm: string,
  more: { name?: string; withCredentials?: boolean; known?: Record<string, string[]>; origin?: string } = {},
): unknown => {
  const { name = 'r.test', withCredentials = true, known = {}, origin = `https://${name}` } = more;
  try {
    const context = { host: { name } as Host, origin: new URL(origin), withCredentials, known };
    return checkRealm(realm, context).href;
  } catch (error) {
    return error;
  }
};

it.each([
  ['https://r.test/token', 'https://r.test'],
  ['https://r.test:5001/token', 'https://r.test:5000'],
  ['http://r.test/token', 'https://r.test'],
  ['http://localhost:1/token', 'http://127.0.0.1:2'],
  ['http://[::1]:1/token', 'http://127.0.0.1:2'],
  ['http://127.0.0.9:1/token', 'http://localhost:2'],
])('credentials go to %s of a registry at %s', (realm, origin) => {
  expect(check(realm, { origin })).toBe(realm);
});

it.each([
  ['registry-1.docker.io', 'https://auth.docker.io/token'],
  ['registry.gitlab.com', 'https://gitlab.com/jwt/auth'],
  ['docker.elastic.co', 'https://docker-auth.elastic.co/auth'],
  ['registry.digitalocean.com', 'https://api.digitalocean.com/v2/registry/auth'],
])('credentials of %s go to its own server %s', (name, realm) => {
  expect(check(realm, { name })).toBe(realm);
});

it.each([
  ['https://other.test/t', 'https://r.test', 'other.test'],
  ['https://other.test:8443/t', 'https://r.test', 'other.test:8443'],
  ['http://localhost/t', 'https://r.test', 'localhost'],
  ['https://r.test/t', 'http://127.0.0.1:5000', 'r.test'],
  ['http://localhost.test/t', 'http://localhost', 'localhost.test'],
])('credentials do not go to %s from a registry at %s', (realm, origin, host) => {
  expect(check(realm, { origin })).toMatchObject({
    code: 'REGISTRY_AUTH_INVALID',
    message: `r.test wants its credentials sent to "${host}", another host`,
    hint: `if that is right, add to the configuration: hosts: {"r.test": {realms: ["${host}"]}}`,
  });
});

it('without credentials any server may be asked, and with them one that is configured', () => {
  const realm = 'https://other.test:8443/t';
  expect(check(realm, { withCredentials: false })).toBe(realm);
  expect(check(realm, { known: { 'r.test': ['x.test', 'other.test:8443'] } })).toBe(realm);
  expect(check(realm, { known: { 'r.test': ['other.test'] } })).toBe(realm);
});

it('what is no address is refused', () => {
  for (const realm of ['', 'token', 'http://[']) {
    expect(check(realm, { withCredentials: false })).toMatchObject({
      code: 'REGISTRY_AUTH_INVALID',
      message: `r.test names ${JSON.stringify(realm)} as its token server, which is no address`,
      hint: 'ask who runs the registry',
    });
  }
});
