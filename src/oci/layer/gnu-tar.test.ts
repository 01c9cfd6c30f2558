import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { file } from '../../testkit/layers/index.ts';
import type { TarEntry } from './entry.ts';
import { findGnuTar, GnuTarSink, hasGnuTar, tarEnvironment } from './gnu-tar.ts';
import { encodeEntry, endOfArchive, FOR_GNU_TAR, padding } from './writer.ts';

// With a program in place of tar that writes down how it was called, or fails as it is told.
const path = process.env.PATH;
let programs: string;
let folder: string;

beforeEach(async () => {
  programs = await mkdtemp(join(tmpdir(), 'skycap-gnu-tar-'));
  folder = join(programs, 'folder');
  await mkdir(folder);
});
afterEach(async () => {
  process.env.PATH = path;
  await rm(programs, { recursive: true, force: true });
});

async function tarIs(script: string): Promise<void> {
  await writeFile(join(programs, 'tar'), `#!/bin/sh\ncd "\${0%/*}"\n${script}\n`);
  await chmod(join(programs, 'tar'), 0o755);
  process.env.PATH = `${programs}:${path ?? ''}`;
}

const RECORDS = `printf '%s\\n' "$@" > args; env > environment; cat "/proc/$$/stat" > stat; cat > archive`;
const noted = async (name: string): Promise<string> => await readFile(join(programs, name), 'latin1');

async function put(sink: GnuTarSink, entry: TarEntry, ...parts: Buffer[]): Promise<void> {
  await sink.put(entry, async () => parts.shift());
}

const failure = async (
  work: Promise<unknown>,
): Promise<Error & { hint?: string; cause?: unknown; details?: unknown }> =>
  await work.then(
    () => expect.fail('it did not fail'),
    (error: Error) => error,
  );

/** Whether a program was started in a process group of its own. */
async function ownGroup(): Promise<boolean> {
  const [pid = '', rest = ''] = (await noted('stat')).split(/ \(.*\) /);
  return rest.split(' ')[2] === pid;
}

describe('tar is started', () => {
  it('with no option that a user or a name could change, in a group of its own', async () => {
    await tarIs(RECORDS);
    process.env.TAR_OPTIONS = '--totals';
    try {
      await new GnuTarSink(folder).finish();
    } finally {
      delete process.env.TAR_OPTIONS;
    }
    expect((await noted('args')).trim().split('\n')).toEqual([
      '--extract',
      '--file=-',
      '--absolute-names',
      '--numeric-owner',
      '--preserve-permissions',
      '--delay-directory-restore',
      '--xattrs',
      '--xattrs-include=*',
      '--no-acls',
      '--no-selinux',
      '--warning=no-timestamp',
      '--blocking-factor=256',
      process.getuid?.() === 0 ? '--same-owner' : '--no-same-owner',
      '-C',
      folder,
    ]);
    const environment = await noted('environment');
    expect(environment).toContain('LC_ALL=C\n');
    expect(environment).not.toContain('TAR_OPTIONS');
    expect(await ownGroup()).toBe(true);
  });

  it('as whoever runs it: owners are kept by root only', async () => {
    await tarIs(RECORDS);
    const getuid = process.getuid;
    for (const [uid, option] of [
      [0, '--same-owner'],
      [7, '--no-same-owner'],
    ] as const) {
      process.getuid = () => uid;
      try {
        await new GnuTarSink(folder).finish();
      } finally {
        if (getuid !== undefined) process.getuid = getuid;
      }
      expect((await noted('args')).split('\n')).toContain(option);
    }
  });

  it('from the path of this process, or where programs usually are', () => {
    expect(tarEnvironment()).toEqual({ PATH: path, LC_ALL: 'C' });
    delete process.env.PATH;
    expect(tarEnvironment()).toEqual({ PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' });
  });

  it.each<[string, string, boolean]>([
    ['GNU tar', `echo 'tar (GNU tar) 1.35'; echo more`, true],
    ['another', `echo 'tar (busybox) 1.36'`, false],
    ['one that only names it', `echo 'like tar (GNU tar)'`, false],
    ['a silent one', ':', false],
  ])('only where it is GNU tar: %s', async (_what, script, answer) => {
    await tarIs(`printf '%s\\n' "$@" > args; cat "/proc/$$/stat" > stat; ${script}`);
    expect(await findGnuTar()).toBe(answer);
    expect(await noted('args')).toBe('--version\n');
    expect(await ownGroup()).toBe(true);
  });

  it('and none that is not there', async () => {
    process.env.PATH = folder;
    expect(await findGnuTar()).toBe(false);
  });

  it('and is asked once', async () => {
    const asked = hasGnuTar();
    expect(hasGnuTar()).toBe(asked);
    expect(await asked).toBe(true);
  });
});

describe('tar is given', () => {
  it('entries in their order with bodies of any size, and the end', async () => {
    await tarIs(RECORDS);
    const sink = new GnuTarSink(folder);
    const wanted: Buffer[] = [];
    const add = async (entry: TarEntry, ...parts: Buffer[]): Promise<void> => {
      wanted.push(encodeEntry(entry, FOR_GNU_TAR), ...parts, padding(entry.size));
      await put(sink, entry, ...parts);
    };
    const sizes = [
      1, 511, 512, 65_535, 65_536, 65_537, 300_000, 2, 262_144, 60_000, 60_000, 60_000, 60_000, 60_000,
    ];
    for (const [index, size] of sizes.entries())
      await add(file(`f${index}`, { size }), Buffer.alloc(size, index + 65));
    await add(
      file('parts', { size: 700_000 }),
      Buffer.alloc(350_000, 'x'),
      Buffer.alloc(50_000, 'y'),
      Buffer.alloc(300_000, 'z'),
    );
    await add(file('n'.repeat(200), { size: 0 }));
    await sink.finish();
    const made = Buffer.from(await noted('archive'), 'latin1');
    expect(made.equals(Buffer.concat([...wanted, endOfArchive()]))).toBe(true);
  });

  it.each(['.', ''])('the root (%j) as the folder itself, and other names as they are', async (name) => {
    await tarIs(RECORDS);
    const sink = new GnuTarSink(folder);
    const mtime = { seconds: 4, nanos: 0 };
    await put(sink, file(name, { type: 'directory', size: 0, mtime }));
    await put(sink, file('-f', { size: 0, mtime }), Buffer.from('never asked for'));
    await sink.finish();
    expect((await noted('archive')).replaceAll(/\0+/g, ' ')).toMatch(/^\.\/ .* -f /s);
    expect(await noted('archive')).not.toContain('never');
  });

  it('no attributes of second names: they are written when it is done', async () => {
    await tarIs(RECORDS);
    await writeFile(join(folder, 'f'), '', { mode: 0o600 });
    const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
    const sink = new GnuTarSink(folder);
    await sink.restamp(file('f', { mode: 0o640, mtime: { seconds: 4, nanos: 0 }, ...own }));
    expect((await stat(join(folder, 'f'))).mode & 0o777).toBe(0o600);
    await sink.finish();
    expect((await stat(join(folder, 'f'))).mode & 0o777).toBe(0o640);
    expect((await stat(join(folder, 'f'))).mtimeMs).toBe(4000);
    expect((await noted('archive')).length).toBe(1024);
  });
});

describe('a tar that fails', () => {
  it('is quoted, with its status', async () => {
    await tarIs(`cat > archive; echo >&2; echo 'tar: f: Cannot mknod' >&2; echo 'tar: more' >&2; exit 2`);
    const error = await failure(new GnuTarSink(folder).finish());
    expect(error).toMatchObject({
      code: 'OCI_LAYER_WRITE',
      message: `a layer could not be written to ${folder}: tar: f: Cannot mknod`,
      hint: 'look at the message of tar; the file system may lack device files or extended attributes',
      details: { exitCode: 2, stderr: '\ntar: f: Cannot mknod\ntar: more\n' },
    });
  });

  it('and says nothing is told by its status, and one that is killed too', async () => {
    await tarIs('cat > archive; exit 3');
    expect((await failure(new GnuTarSink(folder).finish())).message).toBe(
      `a layer could not be written to ${folder}: exit status 3`,
    );
    await tarIs('cat > archive; kill -9 $$');
    expect((await failure(new GnuTarSink(folder).finish())).details).toEqual({ exitCode: -1, stderr: '' });
  });

  it('and says too much is cut', async () => {
    await tarIs(`cat > archive; head -c 9000 /dev/zero | tr '\\0' x >&2; exit 1`);
    const { details } = await failure(new GnuTarSink(folder).finish());
    expect(details).toEqual({ exitCode: 1, stderr: 'x'.repeat(4096) });
  });

  it.each(['No space left on device', 'Disk quota exceeded', 'Wrote only 4096 of 10240 bytes'])(
    'for want of room says so: %s',
    async (text) => {
      await tarIs(`cat > archive; echo 'tar: f: ${text}' >&2; exit 2`);
      const error = await failure(new GnuTarSink(folder).finish());
      expect(error).toMatchObject({
        code: 'DISK_FULL',
        message: `no space left while unpacking a layer into ${folder}`,
        hint: 'free some space there and run the same command again; what was complete is kept',
      });
    },
  );

  it('and is not there is asked for', async () => {
    process.env.PATH = folder;
    const error = await failure(new GnuTarSink(folder).finish());
    expect([codeFrom(error), error.message, error.hint]).toEqual([
      'PROGRAM_MISSING',
      'tar cannot be started',
      'install GNU tar',
    ]);
    expect(error.cause).toMatchObject({ code: 'ENOENT' });
  });

  it('early stops what is written to it', async () => {
    await tarIs('echo stopped >&2; exit 4');
    const sink = new GnuTarSink(folder);
    const part = Buffer.alloc(300_000);
    const work = async (): Promise<never> => {
      for (;;) await put(sink, file('f', { size: part.length }), part);
    };
    expect((await failure(work())).message).toBe(`a layer could not be written to ${folder}: stopped`);
  });

  it('nobody waits for: it is ended', async () => {
    await tarIs('echo $$ > pid; exec sleep 30');
    const sink = new GnuTarSink(folder);
    const pid = async (): Promise<number> => Number(await noted('pid').catch(() => '0'));
    while ((await pid()) === 0);
    await sink.abort();
    const id = await pid();
    expect(() => process.kill(id, 0)).toThrow('ESRCH');
  });
});
