import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-model-'));
  await chmod(directory, 0o755);
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const env = { PATH: process.env.PATH, LC_ALL: 'C' };
const TREE = `
mkdir -p tree/a/closed; cd tree; echo one > a/f; ln a/f hard; ln -s a/f soft; echo two > a/closed/g
mknod null c 1 3; mknod disk b 7 200; mkfifo pipe; truncate -s 1000000 hole; echo end >> hole
chown 12:34 a/f; chown 3000000:4000000 a/closed/g; chmod 4711 a/f; chmod 0 a/closed/g; chmod 500 a/closed
setfattr -n user.bin -v 0x00ff0a a/f; setfattr -n trusted.x -v y a; setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 soft/../a/f
touch -d '2001-02-03 04:05:06.123456789' a/f
cd ..; tar -C tree --format=posix --xattrs --xattrs-include='*' --sparse -cf layer.tar .
`.replace('soft/../', '');

it('L28 user 65534, without a privilege, gets the diffID of a tree of root with devices back', async () => {
  execFileSync('bash', ['--norc', '-euc', TREE], { cwd: directory, env });
  const out = join(directory, 'out');
  await mkdir(out);
  execFileSync('chown', ['65534:65534', out]);
  const script = `
    import { createHash } from 'node:crypto';
    import { createReadStream } from 'node:fs';
    import { packModel, unpackWithModel } from ${JSON.stringify(new URL('./index.ts', import.meta.url).href)};
    const options = { map: undefined, signal: new AbortController().signal };
    const { model, diffId } = await unpackWithModel(() => createReadStream('../layer.tar'), '.', options);
    const hash = createHash('sha256');
    for await (const part of packModel('.', model)) hash.update(part);
    console.log(JSON.stringify({ uid: process.getuid(), diffId, packed: 'sha256:' + hash.digest('hex') }));`;
  const who = [
    '--reuid=65534',
    '--regid=65534',
    '--clear-groups',
    '--no-new-privs',
    '--inh-caps=-all',
    '--bounding-set=-all',
  ];
  const text = execFileSync('setpriv', [...who, process.execPath, '--input-type=module', '-e', script], {
    cwd: out,
    env,
    encoding: 'utf8',
  });
  const digest = `sha256:${createHash('sha256')
    .update(await readFile(join(directory, 'layer.tar')))
    .digest('hex')}`;
  expect(JSON.parse(text)).toEqual({ uid: 65534, diffId: digest, packed: digest });
  expect(execFileSync('stat', ['-c', '%u', join(out, 'a/f')], { encoding: 'utf8' }).trim()).toBe('65534');
  expect(execFileSync('ls', [out], { encoding: 'utf8' }).trim().split('\n')).toEqual([
    'a',
    'hard',
    'hole',
    'soft',
  ]);
});
