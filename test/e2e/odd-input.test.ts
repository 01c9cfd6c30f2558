import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused } from '../support/refused.ts';
import { onTerminal } from '../support/terminal.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

/** What nobody means to give, and somebody gives all the same. */
describe.each(enginesToTest('oci-runtime'))('odd input, on %s', (engine) => {
  let world: World;
  let cwd: string;
  beforeAll(async () => {
    world = await makeWorld(engine);
    const file = { content: 'no folder', mode: 0o644 };
    const tools = await world.image('tools');
    const leading = async (name: string, linkPath: string) =>
      await world.image(name, { busybox: true, files: { 'cnab/app': { type: 'symlink', linkPath } } });
    const odd = await world.image('odd', { files: { cnab: file } });
    cwd = world.bundle({
      'porter.yaml': `
name: odd
version: 1.0.0
invocationImages:
  - {name: tools, image: ${tools}}
  - {name: odd, image: ${odd}}
  - {name: over-proc, image: ${await leading('over-proc', '/proc')}}
  - {name: over-root, image: ${await leading('over-root', '../../..')}}
install:
  - description: works
    invoke: {name: tools, action: {command: ["true"]}}
customActions:
  onto: {description: onto an image with a file in the way}
  over-proc: {description: onto the kernel’s files}
  over-root: {description: onto the whole root}
onto:
  - description: fails
    invoke: {name: odd, action: {command: [/bin/busybox, "true"]}}
over-proc:
  - invoke: {name: over-proc, action: {command: [/bin/busybox, "true"]}}
over-root:
  - invoke: {name: over-root, action: {command: [/bin/busybox, "true"]}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(await world.skycap(['install'], { cwd }), 0);
  });
  afterAll(async () => await world[Symbol.asyncDispose]());

  it('ENGINE_START_FAILED an image with a file where /cnab has to be', async () => {
    expectRefused(await world.skycap(['invoke', '--action', 'onto'], { cwd }), {
      code: 'ENGINE_START_FAILED',
      exit: 42,
      says: ['image odd', '/cnab is not a folder'],
    });
    expectCode(await world.skycap(['uninstall', '--dry-run'], { cwd }), 0);
  });

  it.each([
    ['over-proc', '/proc'],
    ['over-root', '/'],
  ])('ENGINE_START_FAILED an image whose links lead the workspace %s', async (action, place) => {
    expectRefused(await world.skycap(['invoke', '--action', action], { cwd }), {
      code: 'ENGINE_START_FAILED',
      exit: 42,
      says: [`image ${action}`, `/cnab/app is at ${place}, where the image's links lead`],
    });
  });

  it('FILE_UNREADABLE a device without end in place of parameters', async () => {
    expectRefused(await world.skycap(['upgrade', '--params-file', '/dev/zero'], { cwd }), {
      code: 'FILE_UNREADABLE',
      exit: 2,
      says: ['/dev/zero', '64 MiB'],
    });
  });

  it('FILE_UNREADABLE a working folder that is gone, where it matters', async () => {
    const within = ['sh', '-c', 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$0" "$@"'];
    expectRefused(await world.skycap(['lint'], { within }), {
      code: 'FILE_UNREADABLE',
      exit: 2,
      says: ['the working folder is not there any more', 'change to a folder'],
    });
    expectCode(await world.skycap(['image', 'list'], { within }), 0);
  });

  it('BUNDLE_UNREADABLE a name that is no UTF-8 in the bundle', async () => {
    const file = Buffer.concat([Buffer.from(`${cwd}/caf`), Buffer.from([0xe9])]);
    writeFileSync(file, '');
    expectRefused(await world.skycap(['install', 'second'], { cwd }), {
      code: 'BUNDLE_UNREADABLE',
      exit: 10,
      says: ['caf', 'UTF-8', cwd],
    });
    writeFileSync(join(cwd, '.porterignore'), 'caf*\n');
    expectCode(await world.skycap(['install', 'second'], { cwd }), 0);
  });

  it('BUNDLE_UNREADABLE a bundle that is no UTF-8, whose bytes would become others unseen', async () => {
    const folder = world.bundle({
      'porter.yaml': Buffer.from('name: odd\nversion: 1.0.0\ndescription: caf\xe9\n', 'latin1'),
    });
    for (const command of ['lint', 'install'])
      expectRefused(await world.skycap([command, '-f', folder]), {
        code: 'BUNDLE_UNREADABLE',
        exit: 10,
        says: ['UTF-8', 'porter.yaml:3:17'],
      });
  });

  it('USAGE parameters that are no UTF-8', async () => {
    const folder = world.bundle({ 'values.yaml': Buffer.from('city: K\xf6ln\n', 'latin1') });
    const args = ['upgrade', '--params-file', join(folder, 'values.yaml')];
    expectRefused(await world.skycap(args, { cwd }), {
      code: 'USAGE',
      exit: 2,
      says: ['UTF-8', 'values.yaml:1:8', 'save it as UTF-8'],
    });
  });

  it('PARAMETER_UNKNOWN parameters that are typed on the terminal', async () => {
    const args = ['invoke', '--action', 'onto', '-f', cwd, '--params-file', '/dev/tty'];
    const ran = await onTerminal(world, args, [{ to: '', typed: 'nobody: 1\n\u0004' }]);
    expect(ran.shown).toMatch(/PARAMETER_UNKNOWN.*nobody/);
  });

  it.each(['/proc/none', '/dev/null'])('USAGE a bundle below %s', async (folder) => {
    expectRefused(await world.skycap(['create', `${folder}/app`]), {
      code: 'USAGE',
      exit: 2,
      says: [`${folder}/app`],
    });
  });

  it('OCI_ARCHIVE_INVALID a pipe that nobody writes to in place of an archive', async () => {
    const pipe = join(world.directory, 'pipe.tar');
    execFileSync('mkfifo', [pipe]);
    const ran = expectRefused(
      await world.skycap(['image', 'copy', `docker-archive:${pipe}`, `oci:${world.directory}/copied`]),
      { code: 'OCI_ARCHIVE_INVALID', exit: 24, says: [pipe] },
    );
    expect(ran.stdout).toBe('');
  });

  const long = 'x'.repeat(5000);
  const head = 'name: long\nversion: 1.0.0\ninvocationImages: [{name: tools, image: "localhost/tools"}]\n';
  const steps = 'install: [{invoke: {name: tools}}]\n';
  it.each([
    ['a flag', ['install', `--${long}`]],
    ['a verb', [long]],
    ['an installation', ['installation', 'show', long]],
    ['a run', ['run', 'show', long]],
    ['a parameter', ['invoke', '--action', 'onto', '--param', `${long}=1`]],
    ['a parameter without value', ['invoke', '--action', 'onto', '--param', long]],
    ['an action', ['invoke', '--action', long]],
    ['a step', ['step', 'run', long, '--action', 'install']],
    ['a file', ['lint', '-f', long]],
    ['a reference', ['image', 'pull', `localhost/${long}`]],
    ['a tag', ['image', 'pull', `localhost/tools:${long}`]],
    ['an image in the store', ['image', 'inspect', `localhost/tools@sha256:${long}`]],
    ['an archive', ['image', 'copy', `docker-archive:${long}`, `oci:${long}`]],
    ['a source', ['image', 'copy', `${long}:x`, `oci:${long}`]],
  ])('keeps a message short about %s with a name of 5 kB', async (_what, args) => {
    const ran = await world.skycap(args, { cwd });
    expect(ran.code).toBeGreaterThan(0);
    isShort(ran.stderr);
  });

  it.each([
    ['a key', `${head}${steps}${long}: 1\n`],
    ['an image of a step', `${head}install: [{invoke: {name: ${long}}}]\n`],
    ['a wrong parameter', `${head}${steps}parameters: [{name: "${long} ${long}"}]\n`],
    ['a doubled parameter', `${head}${steps}parameters: [{name: ${long}}, {name: ${long}}]\n`],
    [
      'an expression',
      `${head}install: [{invoke: {name: tools, action: {args: ["\${ bundle.${long} }"]}}}]\n`,
    ],
    ['a need', `${head}install: [{needs: [${long}], invoke: {name: tools}}]\n`],
    ['a path', `${head}${steps}parameters: [{name: p, path: ../${long}}]\n`],
  ])('keeps a message of lint short about %s with a name of 5 kB', async (_what, file) => {
    const ran = await world.skycap(['lint'], { cwd: world.bundle({ 'porter.yaml': file }) });
    expect(ran.code).toBe(10);
    isShort(ran.stdout + ran.stderr);
  });

  function isShort(said: string): void {
    expect(said).toContain('x'.repeat(90));
    for (const line of said.split('\n')) expect(line.length, line).toBeLessThan(1000);
  }
});
