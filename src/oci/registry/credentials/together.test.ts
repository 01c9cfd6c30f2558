import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { takeTurn } from '../../store/turn.ts';
import { eraseCredential, storeCredential } from './index.ts';

/** Called when a file has been read, so that another process can write it meanwhile. */
const read = vi.hoisted(() => ({ after: async (_path: string): Promise<void> => {} }));
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  return {
    ...real,
    readFile: (async (...given: Parameters<typeof real.readFile>) => {
      const bytes = await real.readFile(...given).catch((error: unknown) => ({ error }));
      await read.after(String(given[0]));
      if (typeof bytes === 'object' && 'error' in bytes) throw bytes.error;
      return bytes;
    }) as typeof real.readFile,
  };
});

let home: string;
let file: string;
const { signal } = new AbortController();
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'logins-'));
  file = join(home, 'config.json');
});
afterEach(async () => {
  read.after = async () => {};
  await rm(home, { recursive: true });
});

const options = () => ({ environment: { env: { DOCKER_CONFIG: home }, home }, signal });
const login = (host: string) => storeCredential(host, { username: 'u', secret: 'p' }, options());
const hosts = async (): Promise<readonly string[]> =>
  Object.keys((JSON.parse(await readFile(file, 'utf8')) as { auths: object }).auths).sort();

it('logins at once are all kept, and leave nothing beside the file', async () => {
  const names = Array.from({ length: 8 }, (_, index) => `r${index}.test`);
  await Promise.all(names.map(login));
  expect(await hosts()).toEqual(names);
  await Promise.all([...names.slice(1).map((name) => eraseCredential(name, options())), login('new.test')]);
  expect(await hosts()).toEqual(['new.test', 'r0.test']);
  expect(await readdir(home)).toEqual(['config.json']);
});

it.each([
  ['login', () => login('b.test'), ['a.test', 'b.test', 'c.test']],
  ['logout', () => eraseCredential('c.test', options()), ['a.test', 'b.test']],
] as const)('a %s keeps what another process wrote since the file was looked at', async (_, work, kept) => {
  if (kept.length === 2) await login('b.test');
  await login('c.test');
  let once = true;
  read.after = async () => {
    if (!once) return;
    once = false;
    await login('a.test');
  };
  await work();
  expect(once).toBe(false);
  expect(await hosts()).toEqual(kept);
});

it('sweeps the secrets that a killed login has left beside the file', async () => {
  const kept = join(home, 'elsewhere');
  await writeFile(kept, '{}');
  await symlink(kept, file);
  await writeFile(join(home, '.elsewhere.4711.0123456789ab.tmp'), 'a secret');
  await login('r.test');
  expect(await hosts()).toEqual(['r.test']);
  expect((await readdir(home)).sort()).toEqual(['config.json', 'elsewhere']);
});

it('gives up on a lock that nobody lets go of', async () => {
  await using _held = await takeTurn(join(home, '.config.json.skycap-lock'), signal);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const waiting = expect(login('a.test')).rejects.toMatchObject({
      code: 'CREDENTIALS_FILE_INVALID',
      message: expect.stringMatching(/skycap-lock has been locked for 30 seconds$/),
    });
    await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1));
    vi.advanceTimersByTime(30_000);
    await waiting;
  } finally {
    vi.useRealTimers();
  }
});
