import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isSkycapError, type SkycapError } from '../kernel/index.ts';
import type { CredentialSource } from '../settings/index.ts';
import { allowedSources, parseCredentialArgument } from './index.ts';
import { MAX_SECRET_BYTES, type ResolveOptions, resolveCredential } from './resolve.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'skycap-secrets-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

const options = (more: Partial<ResolveOptions> = {}): ResolveOptions => ({
  name: 'token',
  env: { PATH: '/usr/bin:/bin', TOKEN: 's3cret\n', EMPTY: '' },
  signal: new AbortController().signal,
  allowed: allowedSources('flag'),
  from: '--credential',
  ...more,
});

async function text(source: CredentialSource, more?: Partial<ResolveOptions>): Promise<string> {
  return Buffer.from(await resolveCredential(source, options(more))).toString('latin1');
}

async function failure(source: CredentialSource, more?: Partial<ResolveOptions>): Promise<SkycapError> {
  const error = await resolveCredential(source, options(more)).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!isSkycapError(error)) throw new Error(`expected a coded error, got ${String(error)}`);
  expect(error.exitCode).toBe(2);
  expect(error.message).toContain('token');
  return error;
}

describe('parseCredentialArgument', () => {
  it.each([
    ['a=env:X', { kind: 'env', name: 'X' }],
    ['a=path:/x=y:z', { kind: 'path', path: '/x=y:z' }],
    ['a=command:pass show a:b | head -1', { kind: 'command', command: 'pass show a:b | head -1' }],
  ])('reads %s', (argument, source) => {
    expect(parseCredentialArgument(argument)).toEqual({ name: 'a', source });
  });
  it.each([
    'hunter2',
    '=env:X',
    'a',
    'a=',
    'a=hunter2',
    'a=value:hunter2',
    'a=envv:hunter2',
    'a=env:',
    'a=path:',
    'a=env:hunter2 x',
    'a b=env:X',
  ])('refuses %s and does not repeat what may be the value', (argument) => {
    let error: unknown;
    try {
      parseCredentialArgument(argument);
    } catch (caught) {
      error = caught;
    }
    expect(isSkycapError(error, 'SECRET_ARGUMENT')).toBe(true);
    expect(JSON.stringify(error)).not.toContain('hunter2');
  });
});

describe('resolveCredential', () => {
  it('keeps bytes of env, value and path, trailing newline and non-UTF-8 included', async () => {
    expect(await text({ kind: 'env', name: 'TOKEN' })).toBe('s3cret\n');
    expect(await text({ kind: 'env', name: 'EMPTY' })).toBe('');
    expect(await text({ kind: 'value', value: 'v\n' })).toBe('v\n');
    const file = join(folder, 'raw');
    await writeFile(file, Buffer.from([0xff, 0x00, 0x0d, 0x0a, 0x0a]));
    expect(await text({ kind: 'path', path: file })).toBe('\xff\0\r\n\n');
  });
  it.each([
    ["printf 'a\\n'", 'a'],
    ["printf 'a\\r\\n'", 'a'],
    ["printf 'a\\n\\n'", 'a\n'],
    ['printf a', 'a'],
    ["printf ' a '", ' a '],
    ['printf ""', ''],
    ['printf "$EMPTY$TOKEN"', 's3cret'],
    ["printf '\\377'", '\xff'],
  ])('takes one line end from the output of %s', async (command, expected) => {
    expect(await text({ kind: 'command', command })).toBe(expected);
  });
  it('names credential and place of what is missing', async () => {
    expect((await failure({ kind: 'env', name: 'NO_SUCH' })).message).toBe(
      'credential token (--credential): the variable NO_SUCH is not set',
    );
    // Not a variable: inherited properties of objects.
    expect((await failure({ kind: 'env', name: 'toString' })).code).toBe('SECRET_MISSING');
    expect((await failure({ kind: 'path', path: join(folder, 'none') })).place?.file).toBe(
      join(folder, 'none'),
    );
  });
  it('refuses folders, FIFOs, devices and huge files without waiting', async () => {
    const fifo = join(folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    for (const path of [folder, fifo, '/dev/zero']) {
      expect((await failure({ kind: 'path', path })).code).toBe('SECRET_UNREADABLE');
    }
    const huge = join(folder, 'huge');
    execFileSync('truncate', ['-s', String(MAX_SECRET_BYTES + 1), huge]);
    expect((await failure({ kind: 'path', path: huge })).message).toContain('16 MiB');
  });
  it('reports a failed command by exit code, without its output', async () => {
    const error = await failure({ kind: 'command', command: 'echo hunter2; echo hunter2 >&2; exit 3' });
    expect(error.message).toContain('exit code 3');
    expect(JSON.stringify(error)).not.toContain('hunter2');
    expect((await failure({ kind: 'command', command: 'yes' })).message).toContain('16 MiB');
    expect((await failure({ kind: 'command', command: 'kill -9 $$' })).message).toContain('SIGKILL');
  });
  it('stops the whole group of a command when cancelled', async () => {
    const abort = new AbortController();
    const mark = join(folder, 'mark');
    const command = `echo $$ > ${mark}; sleep 60 & wait`;
    const waiting = resolveCredential({ kind: 'command', command }, options({ signal: abort.signal }));
    await expect.poll(() => existsSync(mark)).toBe(true);
    abort.abort(new Error('stop'));
    await expect(waiting).rejects.toThrow('stop');
  });
  it('lets a record name no source of this host', async () => {
    const allowed = allowedSources('record');
    for (const source of [
      { kind: 'env', name: 'TOKEN' },
      { kind: 'path', path: '/etc/passwd' },
      { kind: 'command', command: `touch ${join(folder, 'ran')}` },
    ] as const) {
      expect((await failure(source, { allowed })).code).toBe('SECRET_SOURCE_REFUSED');
    }
    expect(existsSync(join(folder, 'ran'))).toBe(false);
    expect(await text({ kind: 'value', value: 'v' }, { allowed })).toBe('v');
  });
});
