import { describe, expect, it } from 'vitest';
import { isSkycapError } from '../../../kernel/index.ts';
import { fc } from '../../../testkit/property.ts';
import { type Found, lookUp, parseAuthFile, withEntry } from './auth-file.ts';

const path = '/x/config.json';
const SECRET = 'hunter2-hunter2';
const auth = (text: string): string => Buffer.from(text).toString('base64');
const FILE = {
  auths: {
    'https://index.docker.io/v1/': { auth: auth(`u:${SECRET}`) },
    'ghcr.io/a': { username: 'u', password: SECRET },
    'quay.io': { identitytoken: SECRET },
  },
  credHelpers: { 'gcr.io': 'gcloud' },
  credsStore: '',
};

function read(bytes: Uint8Array, host: string): readonly Found[] | Error {
  try {
    return lookUp(parseAuthFile(bytes, { path, kind: 'docker' }), { host, repository: 'a/b' }, path);
  } catch (error) {
    return error as Error;
  }
}

const MALFORMED: readonly (readonly [string, unknown])[] = [
  ['nothing but a brace', '{'],
  ['a list', '[]'],
  ['a number', '1'],
  ['no text', Buffer.from([0x7b, 0xff, 0x7d])],
  ['one key twice', `{"auths":{"ghcr.io":{"auth":"${auth(`u:${SECRET}`)}"}},"auths":{}}`],
  ['a thousand brackets', `{"auths":${'['.repeat(1000)}${']'.repeat(1000)}}`],
  ['no base64 of a pair', { auths: { 'ghcr.io': { auth: auth(SECRET) } } }],
  ['a helper that is a path', { credHelpers: { 'ghcr.io': '../evil' } }],
  ['a helper that is an option', { credsStore: '-x' }],
  ['a helper that is no text', { credHelpers: { 'ghcr.io': { a: SECRET } } }],
  ['cut off in a secret', `{"auths":{"ghcr.io":{"password":"${SECRET}`],
];

describe('files of credentials, malformed', () => {
  it.each(MALFORMED)('R41 %s is refused, and nothing of it is shown', (_what, content) => {
    const text = content instanceof Buffer || typeof content === 'string' ? content : JSON.stringify(content);
    const error = read(Buffer.from(text as string), 'ghcr.io');
    expect(error).toMatchObject({ code: 'CREDENTIALS_FILE_INVALID' });
    expect(`${(error as Error).stack} ${JSON.stringify(error)}`).not.toContain(SECRET);
  });
});

describe('files of credentials, for all', () => {
  it('R41 no change of a file ends in anything but what it says or a refusal that shows no secret', () => {
    const text = JSON.stringify(FILE);
    fc.assert(
      fc.property(
        fc.nat(text.length),
        fc.oneof(fc.string({ maxLength: 6 }), fc.constantFrom('{', '}', '"', '\\u0000', ':', 'null', '[]')),
        fc.nat(20),
        fc.constantFrom('docker.io', 'ghcr.io', 'quay.io', 'gcr.io', 'other.test'),
        (at, insert, cut, host) => {
          const found = read(Buffer.from(text.slice(0, at) + insert + text.slice(at + cut)), host);
          if (!(found instanceof Error)) return;
          expect(isSkycapError(found) && found.code).toBe('CREDENTIALS_FILE_INVALID');
          expect(`${found.message} ${JSON.stringify(found)}`).not.toContain(SECRET);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('R41 R44 what is written for a host is read for it, and for no other', () => {
    const label = fc.stringMatching(/^[a-z0-9]{1,6}$/);
    const host = fc.oneof(
      fc.tuple(label, label).map(([a, b]) => `${a}.${b}`),
      fc.tuple(label, fc.integer({ min: 1, max: 65_535 })).map(([a, port]) => `${a}.test:${port}`),
      fc.constant('docker.io'),
    );
    const part = fc.string({ unit: 'grapheme', maxLength: 12 }).filter((one) => !one.endsWith('\0'));
    fc.assert(
      fc.property(host, host, part, part, (own, other, name, password) => {
        fc.pre(own !== other && !name.includes(':'));
        const file = withEntry(FILE, own, { auth: auth(`${name}:${password}`) });
        const bytes = Buffer.from(JSON.stringify(file));
        const credential = { kind: 'basic', username: name, password };
        expect(read(bytes, own)).toEqual([{ kind: 'credential', credential }]);
        expect(read(bytes, other)).toEqual(read(Buffer.from(JSON.stringify(FILE)), other));
      }),
      { numRuns: 500 },
    );
  });
});
