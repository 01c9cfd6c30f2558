import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacking } from '../../src/testkit/programs.ts';

const SKYCAP = join(import.meta.dirname, '../../bin/skycap');
const USER = 65534;
const UNPRIVILEGED = `setpriv --reuid=${USER} --regid=${USER} --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all`;

const LAYERS = String.raw`
mkdir -p one/etc/closed one/gone/deep two/etc; cd one
echo one > etc/f; ln etc/f hard; ln -s etc/f soft; echo two > etc/closed/g; echo x > gone/deep/f; echo y > stays
echo z > listed; setfacl -m u:7:rw listed; echo z > plain; chmod 664 plain
mknod null c 1 3; mknod disk b 7 200; mkfifo pipe; echo special > "$(printf 'nl\n\xff')"
chown 12:34 etc/f; chown 3000000:4000000 etc/closed/g; chmod 4711 etc/f; chmod 0 etc/closed/g; chmod 500 etc/closed
setfattr -n user.bin -v 0x00ff0a etc/f
setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 stays
touch -d '2001-02-03 04:05:06.123456789' etc/f; cd ../two
echo above > etc/h; touch .wh.gone; mkdir etc/empty; chown 5:6 etc/empty; chmod 2770 etc/empty; cd ..
for one in one two; do tar -C $one --format=posix --xattrs --xattrs-include='*' -cf $one.tar .; done
rm -rf one two; chmod 644 *.tar`;

const lacks = lacking('image unpack and image pack', { setfattr: 'attr', setfacl: 'acl' });

describe.skipIf(lacks).each<[string, string[]]>([
  ['root', []],
  ['an ordinary user', UNPRIVILEGED.split(' ')],
])('image unpack and image pack as %s', (who, within) => {
  const asRoot = who === 'root';
  let top: string;
  let work: string;

  beforeAll(() => {
    top = mkdtempSync(join(tmpdir(), 'skycap-unpack-'));
    chmodSync(top, 0o755);
    execFileSync('bash', ['--norc', '-euc', LAYERS], { cwd: top, env: { PATH: process.env.PATH } });
    work = join(top, 'work');
    mkdirSync(work);
    if (!asRoot) chownSync(work, USER, USER);
    json('image', 'import', '../one.tar', 'localhost/a:1');
    json('image', 'append', 'localhost/a:1', 'localhost/a:2', '../two.tar');
  });
  afterAll(() => rmSync(top, { recursive: true, force: true }));

  const on = (program: string, ...args: string[]) => {
    const [first, ...rest] = [...within, program, ...args] as [string, ...string[]];
    const homes = ['HOME', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME', 'TMPDIR'];
    const env = Object.fromEntries(homes.map((name) => [name, work]));
    return spawnSync(first, rest, {
      cwd: work,
      env: { ...env, PATH: `${dirname(process.execPath)}:${process.env.PATH}`, LC_ALL: 'C' },
      encoding: 'utf8',
    });
  };
  const skycap = (...args: string[]) => on(SKYCAP, ...args);
  function json<T = { readonly digest: string; readonly layers: number }>(...args: string[]): T {
    const ran = skycap(...args, '-o', 'json');
    expect(ran.stderr.includes('"error"') || ran.status !== 0 ? ran.stderr : '').toBe('');
    return JSON.parse(ran.stdout) as T;
  }
  const sh = (script: string): string => {
    const ran = on('sh', '-euc', script);
    expect(ran.status === 0 ? '' : ran.stderr).toBe('');
    return ran.stdout;
  };
  const digestOf = (name: string): string => json('image', 'inspect', name).digest;

  it('L28 what was not changed is the very image again, with its digest', () => {
    const { digest } = json('image', 'unpack', 'localhost/a:2', 'same');
    expect(digest).toBe(digestOf('localhost/a:2'));
    const kinds = sh(
      "cd same/rootfs; find . -mindepth 1 ! -name 'nl*' -printf '%y %P\\n' | sort -k 2; cat etc/f hard soft",
    );
    expect(kinds).toBe(
      [
        ...(asRoot ? ['b disk'] : []),
        'd etc',
        'd etc/closed',
        'f etc/closed/g',
        'd etc/empty',
        'f etc/f',
        'f etc/h',
        'f hard',
        'f listed',
        ...(asRoot ? ['c null', 'p pipe'] : []),
        'f plain',
        'l soft',
        'f stays',
        'one\none\none\n',
      ].join('\n'),
    );
    expect(sh('stat -c %a same').trim()).toBe('700');
    const owner = sh("stat -c '%u:%g %a' same/rootfs/etc/f same/rootfs/etc/closed").trim();
    expect(owner).toBe(asRoot ? '12:34 4711\n0:0 500' : `${USER}:${USER} 711\n${USER}:${USER} 700`);
    expect(json('image', 'pack', 'same', 'localhost/b:1').digest).toBe(digest);
    sh('touch same/rootfs/stays same/rootfs/etc');
    expect(json('image', 'pack', 'same', 'localhost/b:2').digest).toBe(digest);
    expect(digestOf('localhost/b:2')).toBe(digest);
  });

  it('L28 what was changed is one more layer, and everything else stays what it was', () => {
    json('image', 'unpack', 'localhost/a:2', 'changed');
    sh(`cd changed/rootfs; chmod u+w etc/f; echo longer > etc/f; chmod 4711 etc/f; rm -r stays etc/empty
        mkdir -p new/deep; echo new > new/deep/f; ln new/deep/f new/again; rm soft; ln -s etc/h soft
        rm -r etc/closed; echo a file > etc/closed; chmod 640 etc/h`);
    if (asRoot)
      sh(`cd changed/rootfs; setfattr -n user.bin -v 0x00ff0a etc/f; chown 12:34 etc/f; chmod 4711 etc/f
        setfacl -x u:7 -m u:8:rw listed`);
    const packed = json('image', 'pack', 'changed', 'localhost/c:1', '--compression', 'zstd');
    expect(packed.layers).toBe(3);
    const { changes } = json<{
      changes: readonly { path: string; kind: string; aspects: readonly string[] }[];
    }>('image', 'diff', 'localhost/a:2', 'localhost/c:1');
    expect(changes.map(({ path, kind, aspects }) => `${kind} ${path} ${aspects.join()}`.trim())).toEqual([
      'changed /etc/closed type',
      'removed /etc/closed/g',
      'removed /etc/empty',
      'changed /etc/f content',
      'changed /etc/h mode',
      'changed /hard content',
      ...(asRoot ? ['changed /listed xattrs'] : []),
      'added /new',
      'added /new/again',
      'added /new/deep',
      'added /new/deep/f',
      'changed /soft target',
      'removed /stays',
    ]);
    json('image', 'unpack', 'localhost/c:1', 'again');
    expect(
      sh('cd again/rootfs; cat etc/f hard soft new/again etc/closed; stat -c %h new/again').split('\n'),
    ).toEqual(['longer', 'longer', 'above', 'new', 'a file', '2', '']);
    expect(json('image', 'pack', 'again', 'localhost/c:2').digest).toBe(packed.digest);
    const { findings } = json<{ findings: readonly unknown[] }>('image', 'fsck');
    expect(findings).toEqual([]);
  });

  it('what cannot be is said', () => {
    json('image', 'unpack', 'localhost/a:1', 'errors');
    const refused = (code: string, ...args: string[]): void => {
      const ran = skycap(...args, '-o', 'json');
      expect(ran.stderr).toContain(`"code":"${code}"`);
    };
    refused('USAGE', 'image', 'unpack', 'localhost/a:1', 'errors');
    sh('mkdir -p strange; touch errors/rootfs/.wh.f');
    refused('FILE_UNREADABLE', 'image', 'pack', 'strange', 'localhost/d:1');
    refused('OCI_EDIT_INVALID', 'image', 'pack', 'errors', 'localhost/d:1');
    sh('rm errors/rootfs/.wh.f');
    for (const name of ['a:1', 'a:2', 'b:1', 'b:2', 'c:1', 'c:2']) skycap('image', 'rm', `localhost/${name}`);
    json('image', 'prune', '--older-than', '0s');
    refused('OCI_IMAGE_MISSING', 'image', 'pack', 'errors', 'localhost/d:1');
    writeFileSync(join(work, 'errors/skycap-image.json'), '{"version":2}');
    refused('FILE_UNREADABLE', 'image', 'pack', 'errors', 'localhost/d:1');
  });
});
