import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { packArchive, packFiles, readAll, readArchive } from '../archive.ts';
import { Collector, namesOf } from './collect.ts';
import { packFrom, removeFrom, snapshotOf, unpackInto } from './contents.ts';
import { Folder } from './folder.ts';
import { makePointInside, readInside, resolveInside, writeInside } from './scoped.ts';

const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
let base: string;
let root: string;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'tree-'));
  root = join(base, 'root');
  mkdirSync(root);
  writeFileSync(join(base, 'outside'), 'outside');
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

describe('paths inside a root', () => {
  it('follow links as a process inside would, and never leave', () => {
    mkdirSync(join(root, 'etc'));
    writeFileSync(join(root, 'etc/passwd'), 'inside');
    symlinkSync('/etc', join(root, 'absolute'));
    symlinkSync('../../../../etc/passwd', join(root, 'up'));
    symlinkSync(`${base}/outside`, join(root, 'out'));
    symlinkSync('loop', join(root, 'loop'));
    expect(readInside(root, '/absolute/passwd')?.toString()).toBe('inside');
    expect(readInside(root, '/up')?.toString()).toBe('inside');
    expect(readInside(root, '/out')).toBeUndefined();
    expect(resolveInside(root, '/absolute/new/file')).toEqual({ real: ['etc'], missing: ['new', 'file'] });
    expect(() => resolveInside(root, '/loop')).toThrow(/too many links/);
  });

  it('are nothing to mount on where links lead to the kernel’s files or the root', () => {
    const made = { owner, parentOwner: owner };
    mkdirSync(join(root, 'cnab'));
    for (const target of ['/proc', '../sys/fs', '/dev/shm/../new', '/', '../..']) {
      symlinkSync(target, join(root, 'cnab/app'));
      for (const kind of ['folder', 'file'] as const)
        expect(() => makePointInside(root, '/cnab/app', { kind, ...made })).toThrow(
          /where the image's links/,
        );
      const file = { content: Buffer.from('x'), mode: 0o644, ...made };
      expect(() => writeInside(root, '/cnab/app/file', file)).toThrow(/where the image's links/);
      rmSync(join(root, 'cnab/app'));
    }
    expect(readdirSync(root)).toEqual(['cnab']);
    // Who asks for such a folder by its own name gets it, and other links are followed.
    expect(makePointInside(root, '/dev/given', { kind: 'file', ...made }).real).toEqual(['dev', 'given']);
    symlinkSync('/srv', join(root, 'cnab/app'));
    expect(makePointInside(root, '/cnab/app', { kind: 'folder', ...made }).real).toEqual(['srv']);
  });

  it('are written without following a link at the end', () => {
    symlinkSync(join(base, 'outside'), join(root, 'hosts'));
    writeInside(root, '/hosts', { content: Buffer.from('new'), mode: 0o644, owner, parentOwner: owner });
    expect(readFileSync(join(base, 'outside'), 'utf8')).toBe('outside');
    expect(readFileSync(join(root, 'hosts'), 'utf8')).toBe('new');
  });
});

describe('contents', () => {
  it('refuse an archive that goes through a link, and drop setuid', async () => {
    symlinkSync(base, join(root, 'planted'));
    await expect(unpackInto(root, packFiles({ 'planted/x': '1' }), owner)).rejects.toMatchObject({
      code: 'ENGINE_ARCHIVE_INVALID',
    });
    expect(existsSync(join(base, 'x'))).toBe(false);
    await unpackInto(root, packFiles({ s: { content: 'x', mode: 0o4755 } }), owner);
    expect(lstatSync(join(root, 's')).mode & 0o7777).toBe(0o755);
  });

  it('keep links, hard links, modes and times from archive to archive', async () => {
    await unpackInto(
      root,
      packArchive([
        { path: 'd', type: 'directory', mode: 0o750 },
        { path: 'd/f', type: 'file', mode: 0o640, mtime: 1_600_000_000 },
        { path: 'h', type: 'hardlink', linkTarget: 'd/f' },
        { path: 'l', type: 'symlink', linkTarget: '/nowhere' },
      ]),
      owner,
    );
    const found: unknown[] = [];
    for await (const entry of readArchive(packFrom(root, ['d', 'h', 'l'])))
      found.push([entry.path, entry.type, entry.mode, entry.linkTarget]);
    expect(found).toEqual([
      ['d', 'directory', 0o750, ''],
      ['d/f', 'file', 0o640, ''],
      ['h', 'hardlink', 0o640, 'd/f'],
      ['l', 'symlink', 0o777, '/nowhere'],
    ]);
    expect(lstatSync(join(root, 'd/f')).mtimeMs).toBe(1_600_000_000_000);
  });

  it('are removed without following links', () => {
    symlinkSync(base, join(root, 'planted'));
    removeFrom(root, ['planted/outside', 'planted']);
    expect(existsSync(join(base, 'outside'))).toBe(true);
    expect(existsSync(join(root, 'planted'))).toBe(false);
  });

  it('have another fingerprint after a change that keeps size and mtime', () => {
    writeFileSync(join(root, 'f'), 'aaaa');
    const [before] = snapshotOf(root, () => false);
    chmodSync(join(root, 'f'), 0o600);
    const [after] = snapshotOf(root, () => false);
    expect(after?.fingerprint).not.toBe(before?.fingerprint);
  });
});

describe('a collector', () => {
  const request = { paths: [], maxFileBytes: 1000, maxTotalBytes: 1500 };

  function collect(path: string, limits = request) {
    const left: string[] = [];
    const collector = new Collector(limits, (message) => void left.push(message));
    collector.take({
      root,
      names: namesOf(path),
      shown: `/c/${path}`,
      mountPoints: new Set(['/c/o/mounted']),
    });
    return { files: collector.files.map((file) => `${file.path}=${file.content}`), left };
  }

  it('takes files, leaves links out on the way and at the end, and mount points', () => {
    mkdirSync(join(root, 'o'));
    writeFileSync(join(root, 'o/a'), 'A');
    writeFileSync(join(root, 'o/mounted'), '');
    symlinkSync(join(base, 'outside'), join(root, 'o/leaf'));
    symlinkSync(base, join(root, 'o/way'));
    expect(collect('o').files).toEqual(['/c/o/a=A']);
    expect(collect('o').left).toHaveLength(2);
    expect(collect('o/way/outside')).toMatchObject({ files: [], left: [expect.stringContaining('/o/way')] });
  });

  it('leaves out what took the place of a file after it was looked at', () => {
    writeFileSync(join(root, 'file'), 'x');
    const asFile = lstatSync(join(root, 'file'));
    execFileSync('mkfifo', [join(root, 'fifo')]);
    // With somebody at its other end no open waits, whatever its flags.
    const other = openSync(join(root, 'fifo'), constants.O_RDWR);
    const looks = vi.spyOn(Folder.prototype, 'stat').mockReturnValue(asFile);
    try {
      expect(collect('fifo')).toEqual({ files: [], left: ['/c/fifo is no regular file and was left out'] });
    } finally {
      looks.mockRestore();
      closeSync(other);
    }
  });

  it('opens without following a link and without blocking', () => {
    writeFileSync(join(root, 'file'), 'x');
    symlinkSync('file', join(root, 'link'));
    using folder = Folder.open(root);
    expect(() => folder.openFile('link')).toThrow(/ELOOP/);
    const fd = folder.openFile('file');
    try {
      const flags = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1];
      expect(Number.parseInt(flags as string, 8) & constants.O_NONBLOCK).toBe(constants.O_NONBLOCK);
    } finally {
      closeSync(fd);
    }
  });

  it('refuses by size without reading', () => {
    writeFileSync(join(root, 'big'), '');
    truncateSync(join(root, 'big'), 2 ** 40);
    expect(() => collect('big')).toThrow(/1099511627776 bytes/);
  });

  it('reads what it says', async () => {
    writeFileSync(join(root, 'f'), 'content');
    expect(collect('f').files).toEqual(['/c/f=content']);
    expect(await readAll(packFrom(root, ['absent']))).toHaveLength(1024);
  });
});
