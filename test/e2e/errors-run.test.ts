import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { makeGate } from '../../src/testkit/gate.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused, type Refusal } from '../support/refused.ts';
import { supervisorsOf } from '../support/supervisors.ts';
import { expectCode, makeWorld, type Ran, type RunOptions, type World } from '../support/world.ts';

interface Case extends Refusal {
  readonly steps: readonly string[];
  readonly args?: readonly string[];
}

const run = (script: string): string => `invoke: {name: tools, action: {run: ${JSON.stringify(script)}}}`;

/** How a step can end badly; each is an action of one bundle. `%` is the action's name. */
const cases: readonly Case[] = [
  { code: 'STEP_FAILED', exit: 50, steps: [run('exit 7')], says: ['step %[0]', 'exit code 7'] },
  {
    code: 'STEP_TIMEOUT',
    exit: 50,
    steps: [`timeout: 1s\n    ${run('sleep 600')}`],
    says: ['step %[0]', 'timeout of 1s'],
  },
  {
    code: 'STEP_OUT_OF_MEMORY',
    exit: 50,
    steps: ['invoke: {name: small, action: {run: "exec tail -c 200m /dev/zero"}}'],
    says: ['step %[0]', 'out of memory'],
  },
  {
    code: 'STEP_NOT_FOUND',
    exit: 50,
    steps: ['invoke: {name: tools, action: {command: [no-such-program]}}'],
    says: ['step %[0]', 'no such command', 'no-such-program in tools'],
  },
  {
    code: 'STEP_NOT_EXECUTABLE',
    exit: 50,
    steps: ['invoke: {name: tools, action: {command: [/cnab/app/porter.yaml]}}'],
    says: ['step %[0]', 'cannot be executed', '/cnab/app/porter.yaml in tools'],
  },
  {
    code: 'OUTPUT_MISSING',
    exit: 50,
    steps: [run('true')],
    says: ['output always', 'step'],
  },
  {
    code: 'OUTPUT_INVALID',
    exit: 50,
    steps: [run('echo many > outputs/count')],
    says: ['output count', 'integer'],
  },
  {
    code: 'ENGINE_OUTPUT_TOO_LARGE',
    exit: 46,
    steps: [run('truncate -s 300M outputs/count')],
    says: ['outputs/count', '314572800'],
  },
  {
    code: 'ENGINE_USER_UNKNOWN',
    exit: 43,
    steps: ['invoke: {name: stranger, action: {run: "true"}}'],
    says: ['nobody-here', '/etc/passwd'],
  },
  {
    code: 'ENGINE_ENV_TOO_LONG',
    exit: 43,
    steps: [
      `env: {${Array.from({ length: 20 }, (_, at) => `A${at}: '\${ bundle.parameters.long }'`).join(', ')}}`,
    ],
    args: ['--param=long=@long'],
    says: ['longer than the kernel takes'],
  },
  {
    code: 'ENGINE_VOLUME_REFUSED',
    exit: 49,
    steps: ['invoke: {name: covering, action: {run: "true"}}'],
    says: ['volume v', '/etc', '/opt/data'],
  },
  {
    code: 'ENGINE_SESSION_FAILED',
    exit: 41,
    steps: [run('ln -s /etc keys'), `credentials: [token]\n    ${run('true')}`],
    args: ['--credential=token=env:HOME'],
    says: ['symbolic link', '/cnab/app/keys'],
  },
  {
    code: 'CONSENT_MISSING',
    exit: 45,
    steps: ['invoke: {name: socket, action: {run: "true"}}'],
    says: ['step %[0]', 'image socket', '--allow-docker-host-access=socket'],
  },
];

const actionOf = (code: string): string => code.toLowerCase().replaceAll('_', '-');

describe.each(enginesToTest('oci-runtime'))('steps and engines that fail, on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('acme/tools:1');
    const linked = await world.image('acme/linked:1', {
      busybox: true,
      files: { 'opt/data': { type: 'symlink', linkPath: '/etc' } },
    });
    const tool = (name: string, more = ''): string => `  - {name: ${name}, image: "${tools}"${more}}\n`;
    cwd = world.bundle({
      'porter.yaml': `name: failing
version: 1.0.0
invocationImages:
${tool('tools')}${tool('small', ', resources: {memory: 32Mi}')}${tool('stranger', ', user: nobody-here')}${tool('socket', ', docker: true')}${tool('network', ', network: default')}  - {name: covering, image: "${linked}", volumes: [{name: v, path: /opt/data}]}
parameters:
  - {name: long, type: string, default: "", applyTo: [engine-env-too-long]}
credentials:
  - {name: token, path: /cnab/app/keys/token, required: false, applyTo: [engine-session-failed]}
outputs:
  - {name: count, type: integer, default: 0}
  - {name: always, type: string, applyTo: [output-missing]}
customActions:
${cases.map(({ code }) => `  ${actionOf(code)}: {description: x, stateless: true, modifies: false}\n`).join('')}  online: {description: x, stateless: true, modifies: false}
install:
  - ${run('echo waiting; sleep "$SECONDS_" || :')}
online:
  - {description: x, invoke: {name: network, action: {run: "true"}}}
${cases.map(({ code, steps }) => `${actionOf(code)}:\n${steps.map((step) => `  - description: x\n    ${step.startsWith('env:') ? `invoke: {name: tools, ${step}, action: {command: ["true"]}}` : step}\n`).join('')}`).join('')}`.replace(
        'parameters:',
        'parameters:\n  - {name: seconds, env: SECONDS_, type: number, default: 0}',
      ),
      long: 'x'.repeat(125_000),
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const invoke = (action: string, args: readonly string[] = [], options: RunOptions = {}): Promise<Ran> =>
    world.skycap(['invoke', 'failing', '--action', action, ...args], { cwd, ...options });

  it.each(cases)('$code ends the run in one message', async ({ code, exit, says, args }) => {
    const action = actionOf(code);
    expectRefused(await invoke(action, args), {
      code,
      exit,
      says: says.map((text) => (typeof text === 'string' ? text.replace('%', action) : text)),
    });
  });

  it('RUN_CANCELLED a run that is interrupted', async () => {
    const running = world.start(['install', 'cancelled', '--param=seconds=600'], { cwd });
    await running.said('install[0]: started');
    running.process.kill('SIGINT');
    expectRefused(await running.ended, {
      code: 'RUN_CANCELLED',
      exit: 130,
      says: ['install[0]', 'cancelled'],
    });
  });

  it('ENGINE_UNKNOWN an engine that there is none of', async () => {
    expectRefused(await invoke('online', ['--engine', 'podmann']), {
      code: 'ENGINE_UNKNOWN',
      exit: 40,
      says: ['podmann'],
    });
  });

  it('ENGINE_DOCKER_ADDRESS a daemon of another machine', async () => {
    const env = { DOCKER_HOST: 'tcp://192.0.2.1:2375' };
    expectRefused(await invoke('online', ['--engine', 'docker'], { env }), {
      code: 'ENGINE_DOCKER_ADDRESS',
      exit: 40,
      says: ['DOCKER_HOST', 'tcp://192.0.2.1:2375'],
    });
  });

  it('ENGINE_DOCKER_UNREACHABLE a socket that is not there', async () => {
    const env = { DOCKER_HOST: 'unix:///nowhere/docker.sock' };
    expectRefused(await invoke('online', ['--engine', 'docker'], { env }), {
      code: 'ENGINE_DOCKER_UNREACHABLE',
      exit: 40,
      says: ['/nowhere/docker.sock'],
    });
  });

  it('ENGINE_NONE no engine at all', async () => {
    const env = { SKYCAP_ENGINE: '', DOCKER_HOST: 'unix:///nowhere/docker.sock' };
    const within = privately('mount --bind /dev/null /usr/bin/crun');
    expectRefused(await invoke('online', [], { env, within }), {
      code: 'ENGINE_NONE',
      exit: 40,
      says: ['crun is not installed', '/nowhere/docker.sock'],
    });
  });

  it('ENGINE_NETWORK_UNAVAILABLE a network without slirp4netns', async () => {
    expectRefused(
      await invoke('online', [], { within: privately('mount --bind /dev/null /usr/bin/slirp4netns') }),
      {
        code: 'ENGINE_NETWORK_UNAVAILABLE',
        exit: 44,
        says: ['slirp4netns'],
      },
    );
  });

  it('ENGINE_LIMIT_UNSUPPORTED a limit without control groups', async () => {
    const within = privately('mount -t tmpfs none /sys/fs/cgroup');
    expectRefused(await invoke(actionOf('STEP_OUT_OF_MEMORY'), [], { within }), {
      code: 'ENGINE_LIMIT_UNSUPPORTED',
      exit: 45,
      says: ['memory'],
    });
  });

  it('ENGINE_START_FAILED a runtime that fails', async () => {
    const folder = join(world.directory, 'broken');
    mkdirSync(folder);
    writeFileSync(join(folder, 'crun'), '#!/bin/sh\necho "no way to start it" >&2; exit 1\n');
    chmodSync(join(folder, 'crun'), 0o755);
    const env = { PATH: `${folder}:${world.env.PATH}` };
    expectRefused(await invoke('online', [], { env }), {
      code: 'ENGINE_START_FAILED',
      exit: 42,
      says: ['could not be started'],
    });
  });

  it('PROGRAM_MISSING a folder to pack without tar', async () => {
    const within = privately('mount --bind /dev/null /usr/bin/tar');
    expectRefused(await world.skycap(['image', 'import', cwd, 'localhost/packed:1'], { within }), {
      code: 'PROGRAM_MISSING',
      exit: 40,
      says: ['tar'],
    });
  });

  it('RUN_OTHER_ENGINE an interrupted run that another engine has to tell of', async () => {
    expectCode(await world.skycap(['install', 'other'], { cwd }), 0);
    const file = join(world.env.XDG_DATA_HOME as string, 'skycap/state/state.db');
    using state = new DatabaseSync(file);
    state.exec(
      `UPDATE runs SET state = 'running', document = json_set(document, '$.engine', 'docker', '$.state', 'running') WHERE installation = 'other'`,
    );
    expectRefused(await world.skycap(['install', 'other', '--force'], { cwd }), {
      code: 'RUN_OTHER_ENGINE',
      exit: 67,
      says: ['other', 'docker', 'crun'],
    });
  });

  it('STEP_UNKNOWN RESUME_UNKNOWN_STEP a step of which nothing tells how it ended', async () => {
    const gate = makeGate();
    const install = ['install', 'lost', `--param=seconds=${gate.seconds}`];
    const running = world.start(install, { cwd });
    await running.said('install[0]: started');
    await running.said('waiting');
    for (const pid of supervisorsOf(world)) process.kill(pid, 'SIGKILL');
    await gate.open();
    expectRefused(await running.ended, { code: 'STEP_UNKNOWN', exit: 51, says: ['install[0]', '--rerun'] });
    expectRefused(await world.skycap([...install, '--resume'], { cwd }), {
      code: 'RESUME_UNKNOWN_STEP',
      exit: 51,
      says: ['install[0]', 'idempotent'],
    });
  });
});

/** In a mount namespace of its own, made ready by these commands. */
function privately(setUp: string): readonly string[] {
  return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', `${setUp}\nexec "$@"`, 'sh'];
}
