import { createReadStream } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { file } from '../../testkit/layers/index.ts';
import type { TarEntry } from './entry.ts';
import { findGnuTar, GnuTarSink, hasGnuTar } from './gnu-tar.ts';
import { ownMemory } from './memory.ts';
import { readTar } from './reader.ts';
import { tarEnvironment } from './tar-process.ts';
import { encodeEntry, endOfArchive, FOR_GNU_TAR, padding } from './writer.ts';

// With a program in place of tar that writes down how it was called, or fails as it is told.
const path = process.env.PATH;
const isRoot = process.getuid?.() === 0;
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

describe('memory of large parts', () => {
  it('is let go of when tar has them, if nobody else has it', async () => {
    const shared = Buffer.alloc(300_000, 's');
    const parts = [
      Buffer.alloc(262_144, 'a'),
      shared.subarray(0, 262_144),
      Buffer.alloc(200, 'c'),
      Buffer.alloc(262_144, 'd'),
    ];
    const [whole, view, small, theirs] = parts as [Buffer, Buffer, Buffer, Buffer];
    for (const part of [whole, view, small]) ownMemory(part);
    const body = Buffer.concat(parts);
    const sink = new GnuTarSink(folder);
    await put(sink, file('large', { size: body.length }), ...parts);
    await sink.finish();
    expect(body.equals(await readFile(join(folder, 'large')))).toBe(true);
    expect([whole, view, small, theirs].map(({ length }) => length)).toEqual([0, 262_144, 200, 262_144]);
  });
});

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
    for (let index = 0; index < 150; index++) {
      const body = Buffer.alloc(3001 + index, 'y');
      const entry = file(`at once ${index}`, { size: body.length });
      wanted.push(encodeEntry(entry, FOR_GNU_TAR), body, padding(entry.size));
      if (!sink.putNow(entry, body)) await put(sink, entry, body);
    }
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

/** What each process was given; the first has the first file. With the processes in the order in which they ended. */
async function archives(): Promise<{ readonly all: readonly (readonly string[])[]; readonly ended: string }> {
  const names = (await readdir(programs)).filter((name) => name.startsWith('archive.'));
  const read = await Promise.all(
    names.map(async (name) => {
      const paths: string[] = [];
      for await (const { entry } of readTar(createReadStream(join(programs, name))))
        paths.push(entry.type === 'link' ? `${entry.path}>${entry.linkPath}` : entry.path);
      return { paths, pid: name.replace('archive.', '') };
    }),
  );
  const sorted = read.toSorted((one) => (one.paths.includes('a/f0') ? -1 : 1));
  const ended = (await noted('ended')).trim().split('\n');
  return {
    all: sorted.map(({ paths }) => paths),
    ended: ended.map((pid) => (sorted[0]?.pid === pid ? 'first' : 'second')).join(' '),
  };
}
const KEEPS = 'cat > "archive.$$"; echo $$ >> ended';

/** As a layer is put: at once where that can be. */
async function give(sink: GnuTarSink, entry: TarEntry, body = ''): Promise<void> {
  if (!sink.putNow(entry, Buffer.from(body))) await put(sink, entry, Buffer.from(body));
}

describe.runIf(isRoot && availableParallelism() > 1)('many files', () => {
  const makeFolder = (sink: GnuTarSink, path: string): Promise<void> =>
    give(sink, file(path, { type: 'directory', size: 0 }));
  const fill = async (sink: GnuTarSink, path: string, end: number, start = 0): Promise<void> => {
    for (let index = start; index < end; index++) {
      const entry = file(`${path}/f${index}`, { size: 1 });
      await (index % 3 === 0 ? put(sink, entry, Buffer.from('x')) : give(sink, entry, 'x'));
    }
  };

  it('go to two processes, those of a folder to one, and all directories to both; the first ends last', async () => {
    await tarIs(KEEPS);
    const sink = new GnuTarSink(folder);
    for (const name of ['a', 'b', 'c', 'd']) await makeFolder(sink, name);
    await fill(sink, 'a', 200);
    await makeFolder(sink, 'late');
    await fill(sink, 'b', 50);
    await makeFolder(sink, 'later');
    await fill(sink, 'c', 50);
    await fill(sink, 'd', 50);
    await sink.finish();
    const { all, ended } = await archives();
    expect(ended).toBe('second first');
    const [first = [], second = []] = all;
    const directories = ['a/', 'b/', 'c/', 'd/', 'late/', 'later/'];
    expect(first.filter((path) => path.endsWith('/'))).toEqual(directories);
    expect(second.filter((path) => path.endsWith('/'))).toEqual(directories);
    const files = (paths: readonly string[], name: string): number =>
      paths.filter((path) => path.startsWith(`${name}/f`)).length;
    expect(files(first, 'a')).toBe(200);
    const counts = ['b', 'c', 'd'].map((name) => [files(first, name), files(second, name)]);
    for (const count of counts) expect(count.toSorted((x, y) => x - y)).toEqual([0, 50]);
    expect(new Set(counts.map(([one]) => one))).toEqual(new Set([0, 50]));
  });

  it('with further names: each goes where its file went, and those of its own name too', async () => {
    await tarIs(KEEPS);
    const sink = new GnuTarSink(folder);
    const link = (path: string, linkPath: string): Promise<void> =>
      give(sink, file(path, { type: 'link', size: 0, linkPath }));
    for (const name of ['a', 'b']) await makeFolder(sink, name);
    for (const start of [0, 100]) for (const name of ['a', 'b']) await fill(sink, name, start + 100, start);
    for (const [of, on] of ['ab', 'ba'] as const) {
      // One from before there were two, one from after.
      await link(`${on}/early`, `${of}/f3`);
      await link(`${on}/late`, `${of}/f190`);
      await link(`${of}/again`, `${on}/late`);
      await link(`${of}/once-more`, `${on}/early`);
    }
    await sink.finish();
    const { all } = await archives();
    expect(all).toHaveLength(2);
    for (const paths of all) {
      const seen = new Set<string>();
      for (const path of paths) {
        const [name = '', target] = path.split('>');
        if (target !== undefined) expect([path, seen.has(target)]).toEqual([path, true]);
        seen.add(name);
      }
    }
    expect(all.flat().filter((path) => path.includes('>'))).toHaveLength(8);
    expect(all.every((paths) => paths.some((path) => path.includes('>')))).toBe(true);
  });

  it('are too few for two, and a body that is larger than the room for it waits', async () => {
    await tarIs(KEEPS);
    const sink = new GnuTarSink(folder);
    await fill(sink, 'a', 100);
    await fill(sink, 'b', 100);
    const body = Buffer.alloc(300_000);
    expect(sink.putNow(file('b/large', { size: body.length }), body)).toBe(false);
    await sink.finish();
    expect((await archives()).all.map(({ length }) => length)).toEqual([200]);
  });

  it('end where one of the two fails, with what that one says, and both are ended', async () => {
    await tarIs(
      'if mkdir one 2>/dev/null; then echo $$ > pid; exec sleep 30; fi; cat > /dev/null; echo "no inode" >&2; exit 2',
    );
    const sink = new GnuTarSink(folder);
    while ((await noted('pid').catch(() => '')) === '');
    for (const name of ['a', 'b', 'c', 'd']) await fill(sink, name, 75);
    expect((await failure(sink.finish())).message).toBe(
      `a layer could not be written to ${folder}: no inode`,
    );
    const pid = Number(await noted('pid'));
    process.kill(pid, 0);
    await sink.abort();
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  it('that nobody wants any more end both', async () => {
    await tarIs('echo $$ >> pids; exec sleep 30');
    const sink = new GnuTarSink(folder);
    await fill(sink, 'a', 201);
    const pids = async (): Promise<readonly string[]> =>
      (await noted('pids').catch(() => '')).trim().split('\n');
    while ((await pids()).length < 2);
    await sink.abort();
    for (const pid of await pids()) expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH');
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
