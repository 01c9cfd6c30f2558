import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused } from '../support/refused.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const sources = [
  { code: 'SECRET_MISSING', source: 'env:NOT_SET', says: ['NOT_SET'] },
  { code: 'SECRET_UNREADABLE', source: 'path:/etc', says: ['/etc'] },
  { code: 'SECRET_COMMAND_FAILED', source: 'command:exit 3', says: ['3'] },
];

describe.each(enginesToTest('oci-runtime'))('wrong usage, settings and inputs, on %s', (engine) => {
  let world: World;
  /** A locked bundle whose only step sees a credential and parameters. */
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('acme/tools:1');
    cwd = world.bundle({
      'porter.yaml': `name: inputs
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
parameters:
  - {name: count, type: integer, default: 1, maximum: 9}
  - {name: region, type: string}
credentials:
  - {name: token, env: TOKEN}
install:
  - id: only
    description: Only
    credentials: [token]
    invoke: {name: tools, action: {run: '[ "$REGION" != fail ] || exit 7'}}
upgrade:
  - {id: makes, description: Makes, invoke: {name: tools, action: {run: "echo 1 > outputs/made"}}}
  - {id: reads, description: Reads, inputs: [made], invoke: {name: tools, action: {run: "exit 0"}}}
outputs:
  - {name: made, type: integer, default: 0, applyTo: [upgrade]}
look:
  - {description: Look, invoke: {name: tools, action: {run: "exit 0"}}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  /** `install` with the values that it needs, and these arguments. */
  const install = (...args: string[]) =>
    world.skycap(['install', '--param=region=eu', '--credential=token=env:HOME', ...args], { cwd });

  it('USAGE a flag that does not exist', async () => {
    expectRefused(await world.skycap(['lint', '--bogus'], { cwd }), {
      code: 'USAGE',
      exit: 2,
      says: ['skycap lint', '--bogus'],
    });
    const json = await world.skycap(['lint', '--bogus', '-o', 'json'], { cwd });
    expect(expectCode(json, 2).stdout).toBe('');
    expect(JSON.parse(json.stderr)).toMatchObject({
      error: { code: 'USAGE', message: expect.stringContaining('--bogus'), hint: expect.any(String) },
    });
  });

  it("NOT_SUPPORTED a flag of Porter's that is not there", async () => {
    expectRefused(await install('--force-run'), {
      code: 'NOT_SUPPORTED',
      exit: 2,
      says: ['--force-run', 'because'],
    });
  });

  it('FILE_UNREADABLE a file of parameters that is not there', async () => {
    expectRefused(await install('--params-file', 'nowhere.yaml'), {
      code: 'FILE_UNREADABLE',
      exit: 2,
      says: [join(cwd, 'nowhere.yaml'), 'no such file'],
    });
  });

  it('CANCELLED a signal while a registry keeps silent', async () => {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const silent = createServer(() => resolve());
    await new Promise<void>((listening) => silent.listen(0, '127.0.0.1', listening));
    const { port } = silent.address() as AddressInfo;
    const pulling = world.start(['image', 'pull', `127.0.0.1:${port}/acme/tools:1`]);
    await asked;
    pulling.process.kill('SIGINT');
    expectRefused(await pulling.ended, { code: 'CANCELLED', exit: 130, says: ['cancelled'] });
    silent.closeAllConnections();
    silent.close();
  });

  it('DISK_FULL standard output that takes nothing', async () => {
    const ran = await world.skycap(['schema'], { within: ['sh', '-c', 'exec "$@" > /dev/full', 'sh'] });
    expectRefused(ran, { code: 'DISK_FULL', exit: 62, says: ['standard output'] });
  });

  it('SETTINGS_INVALID an unknown key', async () => {
    const file = config('registris: []\n');
    expectRefused(await world.skycap(['config', 'show']), {
      code: 'SETTINGS_INVALID',
      exit: 2,
      says: ['registris', `${file}:1:1`],
    });
    rmSync(file);
  });

  it('SETTINGS_UNREADABLE a folder in place of the file', async () => {
    const file = join(world.env.XDG_CONFIG_HOME as string, 'skycap/config.yaml');
    mkdirSync(file, { recursive: true });
    expectRefused(await world.skycap(['config', 'show']), {
      code: 'SETTINGS_UNREADABLE',
      exit: 2,
      says: [file, 'not a regular file'],
    });
    rmSync(file, { recursive: true });
  });

  it('SETTINGS_OWNER a file that others can write', async () => {
    const file = config('{}\n');
    chmodSync(file, 0o666);
    expectRefused(await world.skycap(['config', 'show']), {
      code: 'SETTINGS_OWNER',
      exit: 2,
      says: [file, 'other users'],
    });
    rmSync(file);
  });

  it('SETTINGS_HOME an account without a home', async () => {
    const homeless = ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'];
    const unset = ['HOME', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_CACHE_HOME', 'XDG_STATE_HOME'];
    const within = [...homeless, 'env', ...unset.flatMap((name) => ['-u', name])];
    expectRefused(await world.skycap(['config', 'show'], { within, cwd: '/' }), {
      code: 'SETTINGS_HOME',
      exit: 2,
      says: ['HOME'],
    });
  });

  it('SETTINGS_RUNTIME_DIRECTORY a folder for secrets that is on a disk', async () => {
    const folder = join(world.directory, 'on-disk');
    mkdirSync(folder, { mode: 0o700 });
    const ran = await world.skycap(['install', '--param=region=eu', '--credential=token=env:HOME'], {
      cwd,
      env: { SKYCAP_RUNTIME_DIRECTORY: folder },
    });
    expectRefused(ran, { code: 'SETTINGS_RUNTIME_DIRECTORY', exit: 2, says: [folder, 'tmpfs'] });
  });

  it('SECRET_ARGUMENT a value on the command line', async () => {
    expectRefused(await install('--credential', 'token=value:s3cret'), {
      code: 'SECRET_ARGUMENT',
      exit: 2,
      says: ['credential token'],
    });
    expectRefused(await install('--credential', '__proto__=env:HOME'), {
      code: 'SECRET_ARGUMENT',
      exit: 2,
      says: ['__proto__'],
    });
  });

  it.each(sources)('$code of $source', async ({ code, source, says }) => {
    // Whoever looks at the plan is told the same.
    for (const args of [[], ['--dry-run']])
      expectRefused(await install('--credential', `token=${source}`, ...args), {
        code,
        exit: 2,
        says: ['credential token', ...says],
      });
  });

  it('CREDENTIAL_MISSING a credential that a step sees', async () => {
    for (const more of [[], ['--dry-run']])
      expectRefused(await world.skycap(['install', '--param=region=eu', ...more], { cwd }), {
        code: 'CREDENTIAL_MISSING',
        exit: 2,
        says: ['inputs', 'token', '--credential token=env:'],
      });
  });

  it('CREDENTIAL_UNKNOWN a credential that the bundle does not have', async () => {
    for (const name of ['tokn', 'constructor'])
      expectRefused(await install('--credential', `${name}=env:HOME`), {
        code: 'CREDENTIAL_UNKNOWN',
        exit: 2,
        says: ['inputs', name],
      });
  });

  it('PARAMETER_UNKNOWN a parameter that the bundle does not have', async () => {
    for (const name of ['regoin', '__proto__', 'constructor'])
      expectRefused(await install('--param', `${name}=1`, '--dry-run'), {
        code: 'PARAMETER_UNKNOWN',
        exit: 2,
        says: ['inputs', name],
      });
    const file = join(cwd, 'given.yaml');
    writeFileSync(file, '{"__proto__": {"region": "us"}}');
    expectRefused(await install('--params-file', file), {
      code: 'PARAMETER_UNKNOWN',
      exit: 2,
      says: ['inputs', '__proto__'],
    });
  });

  it('PARAMETER_INVALID a value that does not fit', async () => {
    for (const value of ['many', '10'])
      expectRefused(await install('--param', `count=${value}`), {
        code: 'PARAMETER_INVALID',
        exit: 2,
        says: ['count'],
      });
  });

  it('PARAMETER_MISSING a parameter without a value', async () => {
    for (const more of [[], ['--dry-run']])
      expectRefused(await world.skycap(['install', '--credential=token=env:HOME', ...more], { cwd }), {
        code: 'PARAMETER_MISSING',
        exit: 2,
        says: ['inputs', 'region', '--param region='],
      });
  });

  it('INSTALLATION_NAME a name that could not be a file', async () => {
    expectRefused(await install('../up'), { code: 'INSTALLATION_NAME', exit: 2, says: ['../up'] });
  });

  it('INSTALLATION_NOT_INSTALLED an upgrade of nothing', async () => {
    for (const more of [[], ['--dry-run']])
      expectRefused(await world.skycap(['upgrade', 'nothing', ...more], { cwd }), {
        code: 'INSTALLATION_NOT_INSTALLED',
        exit: 67,
        says: ['nothing'],
      });
  });

  it('INSTALLATION_NOT_FOUND an uninstall of nothing, and an action on nothing unless forced', async () => {
    const refusal = { code: 'INSTALLATION_NOT_FOUND', exit: 67, says: ['nothing'] };
    expectRefused(await world.skycap(['uninstall', 'nothing'], { cwd }), refusal);
    const invoke = ['invoke', 'nothing', '--action', 'look', '--param=region=eu'];
    for (const more of [[], ['--dry-run']])
      expectRefused(await world.skycap([...invoke, ...more], { cwd }), refusal);
    expectCode(await world.skycap([...invoke, '--force', '--dry-run'], { cwd }), 0);
  });

  it('INSTALLATION_EXISTS a second install', async () => {
    expectCode(await install('twice'), 0);
    for (const more of [[], ['--dry-run']])
      expectRefused(await install('twice', ...more), {
        code: 'INSTALLATION_EXISTS',
        exit: 67,
        says: ['twice', '--force'],
      });
    expectCode(await install('twice', '--force', '--dry-run'), 0);
  });

  it('RESUME_NOTHING a run that succeeded', async () => {
    expectCode(await install('whole'), 0);
    for (const more of [[], ['--dry-run']])
      expectRefused(await install('whole', '--resume', ...more), {
        code: 'RESUME_NOTHING',
        exit: 67,
        says: ['whole', 'succeeded'],
      });
  });

  it('STEP_NOT_FOUND_IN_PLAN a step to run again that there is none of', async () => {
    expectRefused(await install('failing', '--param=region=fail'), {
      code: 'STEP_FAILED',
      exit: 50,
      says: ['only', 'exit code 7'],
    });
    const given = ['--param=region=fail', '--resume', '--rerun', 'onyl'];
    for (const more of [[], ['--dry-run']])
      expectRefused(await install('failing', ...given, ...more), {
        code: 'STEP_NOT_FOUND_IN_PLAN',
        exit: 2,
        says: ['onyl', 'did you mean only? it has only'],
      });
    const one = ['step', 'run', 'onyl', '--action=install', '-i', 'failing'];
    one.push('--param=region=eu', '--credential=token=env:HOME');
    expectRefused(await world.skycap(one, { cwd }), {
      code: 'STEP_NOT_FOUND_IN_PLAN',
      exit: 2,
      says: ['has no step onyl', 'did you mean only? it has only'],
    });
  });

  it('RESUME_CHANGED other parameters than the run that is resumed', async () => {
    expectCode(await install('changing', '--param=region=fail'), 50);
    for (const more of [[], ['--dry-run']])
      expectRefused(await install('changing', '--param=region=us', '--resume', ...more), {
        code: 'RESUME_CHANGED',
        exit: 68,
        says: ['parameter region', '--replan'],
      });
  });

  it('STEP_NEEDS_OUTPUTS a step alone that reads what no run has made', async () => {
    expectCode(await install('alone', '--param=region=fail'), 50);
    const alone = ['step', 'run', 'reads', '-i', 'alone', '--action', 'upgrade'];
    expectRefused(await world.skycap(alone, { cwd }), {
      code: 'STEP_NEEDS_OUTPUTS',
      exit: 68,
      says: ['reads', 'made'],
    });
  });

  it('STATE_NOT_FOUND a run, an installation and an output that are not there', async () => {
    const refusal = { code: 'STATE_NOT_FOUND', exit: 67 };
    expectRefused(await world.skycap(['run', 'show', 'nothing']), { ...refusal, says: ['run nothing'] });
    expectRefused(await world.skycap(['output', 'list', '-i', 'nothing']), { ...refusal, says: ['nothing'] });
    expectRefused(await world.skycap(['show', 'nothing']), { ...refusal, says: ['nothing'] });
  });

  function config(text: string): string {
    const file = join(world.env.XDG_CONFIG_HOME as string, 'skycap/config.yaml');
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  }
});
