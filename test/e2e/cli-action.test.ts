import { chmodSync, copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { collect, firstLine, type Home, makeHome } from '../support/skycap.ts';

/** These tests run steps: they need root and crun. Without them they say so, and are red where engines are required. */
const missing = [
  ...(process.getuid?.() === 0 ? [] : ['root']),
  ...(existsSync('/usr/bin/crun') ? [] : ['crun (apt-get install crun)']),
  ...(existsSync('/bin/busybox') ? [] : ['busybox (apt-get install busybox-static)']),
];
if (missing.length > 0) {
  const message = `actions of the command line were NOT tested on crun: ${missing.join(', ')} missing`;
  if (process.env.SKYCAP_REQUIRE_ENGINES === '1') {
    throw new Error(message);
  }
  console.warn(message);
}

let home: Home;
let registry: ReturnType<Home['start']>;
let address: string;

beforeAll(async () => {
  home = await makeHome();
  if (missing.length > 0) {
    return;
  }
  const bin = join(home.folder, 'rootfs/bin');
  mkdirSync(bin, { recursive: true });
  copyFileSync('/bin/busybox', join(bin, 'busybox'));
  chmodSync(join(bin, 'busybox'), 0o755);
  for (const name of ['sh', 'echo', 'cat', 'sleep', 'true']) {
    symlinkSync('busybox', join(bin, name));
  }
  const imported = await home.run([
    'image',
    'import',
    'rootfs',
    'localhost/tools:1',
    '--env',
    'PATH=/bin',
    '--cmd',
    'sh',
  ]);
  expect(imported.exitCode, imported.stderr).toBe(0);
  registry = home.start(['registry', 'serve', '--port', '0']);
  address = await firstLine(registry);
});

afterAll(async () => {
  if (registry !== undefined) {
    const ended = collect(registry);
    registry.kill('SIGTERM');
    await ended;
  }
  await home[Symbol.asyncDispose]();
});

async function makeBundle(name: string, steps: string): Promise<string> {
  const folder = join(home.folder, name);
  mkdirSync(folder);
  writeFileSync(
    join(folder, 'porter.yaml'),
    `schemaVersion: 1.0.1
name: ${name}
version: 1.2.3
description: For tests
invocationImages:
  - name: tools
    image: ${address}/tools:1
    network: none
parameters:
  - {name: place, type: string, default: world}
outputs:
  - {name: greeting, type: string, path: /cnab/app/outputs/greeting}
${steps}`,
  );
  const locked = await home.run(['lock'], { cwd: folder });
  expect(locked.exitCode, locked.stderr).toBe(0);
  return folder;
}

const greet = `
  - description: Greet
    id: greet
    invoke:
      name: tools
      action:
        run: |
          echo "to stdout"
          echo "to stderr" >&2
          echo "Hello, \${ bundle.parameters.place }" > /cnab/app/outputs/greeting
      outputs:
        - {name: greeting, path: /cnab/app/outputs/greeting, sensitive: false}
`;

describe.skipIf(missing.length > 0)('actions', () => {
  test('results go to stdout, events to stderr, and the record can be asked', async () => {
    const cwd = await makeBundle('good', `install:${greet}uninstall:${greet}`);
    const ran = await home.run(['install', '--param', 'place=moon', '-l', 'env=prod', '-o', 'json'], { cwd });
    expect(ran.exitCode, ran.stderr).toBe(0);
    const result = JSON.parse(ran.stdout);
    expect(result).toMatchObject({
      action: 'install',
      state: 'succeeded',
      version: '1.2.3',
      steps: [{ id: 'greet', state: 'succeeded', exitCode: 0 }],
      outputs: [{ name: 'greeting', sensitive: false, value: 'Hello, moon\n' }],
    });
    expect(ran.stderr).toContain('greet | to stdout');
    expect(ran.stderr).toContain('greet | to stderr');
    expect((await home.run(['output', 'show', 'greeting'], { cwd })).stdout).toBe('Hello, moon\n');
    expect(JSON.parse((await home.run(['list', '-l', 'env=prod', '-o', 'json'])).stdout)).toMatchObject([
      {
        name: 'good',
        status: { action: 'install', resultStatus: 'succeeded' },
        _calculated: { displayInstallationState: 'installed' },
      },
    ]);
    expect((await home.run(['run', 'logs', result.id])).stdout).toContain('greet | to stderr');
    expect((await home.run(['install'], { cwd })).exitCode).toBe(67);
    const gone = await home.run(['uninstall', '--delete', 'good']);
    expect(gone.exitCode, gone.stderr).toBe(0);
    expect((await home.run(['show', 'good'])).exitCode).toBe(67);
  });

  test('events as JSON are whole lines with times', async () => {
    const cwd = await makeBundle('events', `install:${greet}`);
    const ran = await home.run(['install', '--progress', 'json'], { cwd });
    expect(ran.exitCode, ran.stderr).toBe(0);
    const events = ran.stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { type: string; time: string });
    expect(events.every(({ time }) => !Number.isNaN(Date.parse(time)))).toBe(true);
    const types = events.map(({ type }) => type);
    for (const type of [
      'run.started',
      'step.started',
      'step.output',
      'output.collected',
      'step.finished',
      'run.finished',
    ]) {
      expect(types).toContain(type);
    }
  });

  test('a failed step is exit 50, with its own code in message and JSON', async () => {
    const steps = `install:
  - description: Fail
    id: fail
    invoke: {name: tools, action: {command: [sh, -c, "exit 7"]}}
`;
    const cwd = await makeBundle('bad', steps);
    const ran = await home.run(['install', '-o', 'json'], { cwd });
    expect(ran.exitCode, ran.stderr).toBe(50);
    expect(JSON.parse(ran.stdout)).toMatchObject({
      state: 'failed',
      steps: [{ id: 'fail', state: 'failed', exitCode: 7 }],
    });
    expect(ran.stderr).toContain('exit code 7');
    const shown = await home.run(['show', 'bad']);
    expect(shown.stdout).toContain('fail with exit code 7');
  });

  test('a dry run prints the plan and records nothing', async () => {
    const cwd = await makeBundle('dry', `install:${greet}`);
    const ran = await home.run(['install', '--dry-run'], { cwd });
    expect(ran.exitCode, ran.stderr).toBe(0);
    expect(ran.stdout).toContain('nothing was run');
    expect(ran.stdout).toMatch(/sha256:[0-9a-f]{64}/);
    expect((await home.run(['show', 'dry'])).exitCode).toBe(67);
  });

  test('a consent that is missing is asked for by its flag', async () => {
    const folder = join(home.folder, 'docker');
    mkdirSync(folder);
    writeFileSync(
      join(folder, 'porter.yaml'),
      `schemaVersion: 1.0.1\nname: docker\nversion: 0.1.0\ndescription: x\ninvocationImages:\n  - {name: tools, image: "${address}/tools:1", docker: true}\ninstall:\n  - description: A\n    invoke: {name: tools, action: {command: ["true"]}}\n`,
    );
    expect((await home.run(['lock'], { cwd: folder })).exitCode).toBe(0);
    const ran = await home.run(['install'], { cwd: folder });
    expect(ran.exitCode).toBe(45);
    expect(ran.stderr).toContain('--allow-docker-host-access=tools');
  });

  describe('cancelled', () => {
    const slow = `install:
  - description: Wait
    id: wait
    invoke: {name: tools, action: {run: "echo begun; exec sleep 600"}}
`;

    test('by Ctrl-C: says what it waits for, ends with 130', async () => {
      const cwd = await makeBundle('slow', slow);
      const child = home.start(['install', '--grace', '1s'], { cwd });
      const ended = collect(child);
      await seen(child, 'wait | begun');
      child.kill('SIGINT');
      const ran = await ended;
      expect(ran).toMatchObject({ exitCode: 130 });
      expect(ran.stderr).toContain('cancelling: waiting for step wait to end; press Ctrl-C again to kill it');
      expect(JSON.parse((await home.run(['run', 'list', 'slow', '-o', 'json'])).stdout)).toMatchObject([
        { status: 'aborted' },
      ]);
    });

    test('from another terminal', async () => {
      const cwd = await makeBundle('slower', slow);
      const child = home.start(['install', '--grace', '1s'], { cwd });
      const ended = collect(child);
      await seen(child, 'wait | begun');
      const [{ id }] = JSON.parse((await home.run(['run', 'list', 'slower', '-o', 'json'])).stdout);
      const cancelled = await home.run(['run', 'cancel', id]);
      expect(cancelled.exitCode, cancelled.stderr).toBe(0);
      expect(cancelled.stdout).toContain('aborted');
      expect(await ended).toMatchObject({ exitCode: 130 });
      expect((await home.run(['run', 'cancel', id])).exitCode).toBe(2);
    });
  });
});

/** Resolves once the text stands in what the program said on stderr. */
function seen(child: ReturnType<Home['start']>, text: string): Promise<void> {
  return new Promise((resolve) => {
    let all = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      all += chunk.toString();
      if (all.includes(text)) {
        resolve();
      }
    });
  });
}
