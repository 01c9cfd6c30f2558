import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused } from '../support/refused.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

/** What nobody means to give, and somebody gives all the same. */
describe.each(enginesToTest('oci-runtime'))('odd input, on %s', (engine) => {
  let world: World;
  let cwd: string;
  beforeAll(async () => {
    world = await makeWorld(engine);
    const file = { content: 'no folder', mode: 0o644 };
    const tools = await world.image('tools');
    const odd = await world.image('odd', { files: { cnab: file } });
    cwd = world.bundle({
      'porter.yaml': `
name: odd
version: 1.0.0
invocationImages:
  - {name: tools, image: ${tools}}
  - {name: odd, image: ${odd}}
install:
  - description: works
    invoke: {name: tools, action: {command: ["true"]}}
customActions:
  onto: {description: onto an image with a file in the way}
onto:
  - description: fails
    invoke: {name: odd, action: {command: [/bin/busybox, "true"]}}
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

  it('FILE_UNREADABLE a device without end in place of parameters', async () => {
    expectRefused(await world.skycap(['upgrade', '--params-file', '/dev/zero'], { cwd }), {
      code: 'FILE_UNREADABLE',
      exit: 2,
      says: ['/dev/zero', '64 MiB'],
    });
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
});
