import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeGate } from '../../src/testkit/gate.ts';
import { enginesToTest } from '../support/engines.ts';
import { supervisorsOf } from '../support/supervisors.ts';
import {
  expectCode,
  makeWorld,
  type Ran,
  type Running,
  type RunOptions,
  type World,
} from '../support/world.ts';

interface RunJson {
  readonly id: string;
  readonly action: string;
  readonly state: string;
  readonly status: string;
  readonly parameters?: Record<string, unknown>;
  readonly steps: readonly {
    readonly id: string;
    readonly index: number;
    readonly state: string;
    readonly exitCode?: number;
    readonly attempts: readonly unknown[];
    readonly image: string;
    readonly startedAt: string;
    readonly finishedAt: string;
  }[];
}

function printed(ran: Ran, step: string): string {
  return ran.events
    .filter((event) => event.type === 'step.output' && event.step === step)
    .map((event) => event.text)
    .join('')
    .trimEnd();
}

function started(ran: Ran): readonly unknown[] {
  return ran.events.filter((event) => event.type === 'step.started').map((event) => event.step);
}

describe.each(enginesToTest('oci-runtime'))('actions and records on %s', (engine) => {
  const gate = makeGate();
  let world: World;
  let tools: string;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('tools:1');
    cwd = world.bundle({ 'porter.yaml': bundle(tools, gate.wait) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const act = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
    world.skycap([...args, '--progress', 'json'], { cwd, ...options });
  const invoke = (name: string, action: string, more: readonly string[] = []): Promise<Ran> =>
    act(['invoke', name, '--action', action, ...more]);

  async function runsOf(name: string): Promise<readonly RunJson[]> {
    return expectCode(await world.skycap(['run', 'list', '-i', name, '-o', 'json']), 0).json<RunJson[]>();
  }

  async function lastRun(name: string): Promise<RunJson> {
    const id = (await runsOf(name)).at(-1)?.id ?? '';
    return expectCode(await world.skycap(['run', 'show', id, '-o', 'json']), 0).json<RunJson>();
  }

  async function waiting(name: string): Promise<{ id: string; running: Running }> {
    expectCode(await act(['install', name]), 0);
    const running = world.start(['invoke', name, '--action', 'wait', '--progress', 'json'], { cwd });
    await running.said('waiting');
    return { id: ((await runsOf(name)).at(-1) as RunJson).id, running };
  }

  it('B85 lets an action run only where it fits', async () => {
    const early = expectCode(await act(['upgrade', 'fits']), 67);
    expect(early.stderr).toContain('INSTALLATION_NOT_INSTALLED');
    expect(early.stderr).toContain('skycap install');
    expect((await invoke('fits', 'look')).code).toBe(67);
    expect((await invoke('fits', 'loose')).code).toBe(67);
    const free = expectCode(await invoke('fits-free', 'free'), 0);
    expect(printed(free, 'free')).toBe('free');

    expectCode(await act(['install', 'fits']), 0);
    const again = expectCode(await act(['install', 'fits']), 67);
    expect(again.stderr).toContain('fits is installed already');
    expect(started(again)).toEqual([]);
    expectCode(await act(['install', 'fits', '--force']), 0);
    expectCode(await invoke('fits', 'look'), 0);
    expectCode(await act(['upgrade', 'fits']), 0);
    expectCode(await act(['uninstall', 'fits']), 0);

    expectCode(await act(['upgrade', 'fits']), 67);
    expectCode(await act(['upgrade', 'fits', '--force-upgrade']), 0);
  });

  it('B86 B94 lets one action modify and others share; logs and cancel work from elsewhere', async () => {
    expectCode(await act(['install', 'busy']), 0);
    const alone = world.start(['invoke', 'busy', '--action', 'wait', '--progress', 'json'], { cwd });
    await alone.said('waiting');

    const refused = expectCode(await invoke('busy', 'change'), 61);
    expect(refused.stderr).toContain('busy is busy with run');
    expect(refused.stderr).toContain('skycap run cancel');
    expectCode(await invoke('busy', 'look'), 61);
    // Another installation has nothing to do with it.
    expectCode(await act(['install', 'idle']), 0);

    const { id } = (await runsOf('busy')).at(-1) as RunJson;
    const follower = world.start(['run', 'logs', id, '-f'], { cwd });
    await follower.said('wait | waiting');
    const cancelled = expectCode(await world.skycap(['run', 'cancel', id, '-o', 'json']), 0);
    expect(cancelled.json()).toMatchObject({ id, state: 'aborted' });
    expect(printed(expectCode(await alone.ended, 130), 'wait')).toBe('waiting\ngot TERM');
    const followed = expectCode(await follower.ended, 0);
    expect(followed.stdout).toContain('wait | got TERM');
    expect(followed.stdout).toContain('aborted');

    // Two that share run at the same time: each waits for the other's sign on their volume.
    const shared = await Promise.all([invoke('busy', 'meet-a'), invoke('busy', 'meet-b')]);
    for (const ran of shared) expectCode(ran, 0);
  });

  it('B94 kills a run from elsewhere', async () => {
    expectCode(await act(['install', 'killed']), 0);
    const running = world.start(
      [
        'invoke',
        'killed',
        '--action',
        'wait',
        '--grace',
        '10m',
        '--param',
        'word=stubborn',
        '--progress',
        'json',
      ],
      { cwd },
    );
    await running.said('waiting');
    const { id } = (await runsOf('killed')).at(-1) as RunJson;

    const cancelled = expectCode(await world.skycap(['run', 'cancel', id, '--kill', '-o', 'json']), 0);

    expect(cancelled.json()).toMatchObject({ state: 'aborted' });
    expectCode(await running.ended, 130);
    expect((await lastRun('killed')).steps[0]).toMatchObject({ id: 'wait', exitCode: 137 });
    const again = expectCode(await world.skycap(['run', 'cancel', id]), 2);
    expect(again.stderr).toContain('has ended already');
  });

  it('B94 cancels a run whose process is stopped, which goes on to obey', async () => {
    const { id, running } = await waiting('stopped');
    running.process.kill('SIGSTOP');

    const cancelled = expectCode(await world.skycap(['run', 'cancel', id, '-o', 'json']), 0);

    expect(cancelled.json()).toMatchObject({ state: 'aborted', signalled: running.process.pid });
    expect(cancelled.stderr).toContain('was stopped');
    expect(printed(expectCode(await running.ended, 130), 'wait')).toBe('waiting\ngot TERM');
  });

  it('B94 ends a run by force, with its process or after it is gone', async () => {
    for (const name of ['forced', 'abandoned']) {
      const { id, running } = await waiting(name);
      running.process.kill(name === 'forced' ? 'SIGSTOP' : 'SIGKILL');
      if (name === 'abandoned') {
        await running.ended;
        expect(expectCode(await world.skycap(['run', 'cancel', id]), 2).stderr).toContain('--force');
      }

      const cancelled = expectCode(await world.skycap(['run', 'cancel', id, '--force', '-o', 'json']), 0);

      expect(cancelled.json()).toMatchObject({ state: 'aborted' });
      expect((await running.ended).signal).toBe('SIGKILL');
      const last = await lastRun(name);
      // It ended as it does on TERM.
      expect(last.steps[0]).toMatchObject({ id: 'wait', state: 'aborted', exitCode: 0 });
      const next = expectCode(await invoke(name, 'look'), 0);
      expect(next.stderr).not.toContain('was interrupted');
    }
  });

  it('B87 awaits the step of a killed tool and records its exit code and outputs', async () => {
    const first = world.start(['install', 'orphan', '--param', 'word=slow', '--progress', 'json'], { cwd });
    await first.said('about to write');
    first.process.kill('SIGKILL');
    await first.ended;

    const going = invoke('orphan', 'look');
    await gate.open();
    const next = expectCode(await going, 0);

    expect(next.stderr).toContain('was interrupted');
    const [install] = await runsOf('orphan');
    const run = expectCode(await world.skycap(['run', 'show', install?.id ?? '', '-o', 'json']), 0);
    expect(run.json<RunJson>().steps[0]).toMatchObject({ id: 'make', state: 'succeeded', exitCode: 0 });
    expect(run.json<RunJson>().steps[0]?.attempts).toHaveLength(1);
    const output = await world.skycap(['output', 'show', 'made', '-i', 'orphan'], { cwd });
    expect(output.stdout.trim()).toBe('slow');
    // Once, not twice: the step counts its runs on the installation's volume.
    expect(printed(next, 'look')).toBe('made 1 time');
  });

  it('B88 B95 resumes with what was done, in its workspace', async () => {
    const failed = expectCode(await invokeNew('resumed', 'long-way'), 50);
    expect(failed.stderr).toContain('step cell[b] ended with exit code 7');
    expect(started(failed)).toEqual(['first', 'cell[a]', 'cell[b]']);

    const changed = expectCode(
      await invoke('resumed', 'long-way', ['--resume', '--param', 'word=other']),
      68,
    );
    expect(changed.stderr).toContain('RESUME_CHANGED');
    expect(changed.stderr).toContain('parameter word');
    expect(changed.stderr).toContain('--replan');

    const typo = await invoke('resumed', 'long-way', ['--resume', '--rerun', 'frist']);
    expect(typo.stderr).toContain('did you mean first?');

    const still = expectCode(await invoke('resumed', 'long-way', ['--resume']), 50);
    expect(started(still)).toEqual(['cell[b]']);

    const done = expectCode(
      await invoke('resumed', 'long-way', ['--resume', '--replan', '--param', 'word=other']),
      0,
    );
    expect(started(done)).toEqual(['cell[b]', 'last']);
    // The output of a step of the first run, the file of a cell of the first run, both cells' outputs.
    expect(printed(done, 'last')).toBe('first said one; a and b; {"a":"of a","b":"of b"}');

    const nothing = expectCode(await invoke('resumed', 'long-way', ['--resume']), 67);
    expect(nothing.stderr).toContain('RESUME_NOTHING');
  });

  it('B88 keeps what was done when bundle or lock changed, and refuses', async () => {
    const own = world.bundle({ 'porter.yaml': bundle(tools, gate.wait), note: 'one' });
    expectCode(await world.skycap(['lock'], { cwd: own }), 0);
    expectCode(await act(['install', 'edited'], { cwd: own }), 0);
    const args = ['invoke', 'edited', '--action', 'long-way'];
    expectCode(await act(args, { cwd: own }), 50);
    writeFileSync(join(own, 'note'), 'two');

    const refused = expectCode(await act([...args, '--resume'], { cwd: own }), 68);
    expect(refused.stderr).toContain("the bundle's files or lock");
    expect(started(refused)).toEqual([]);

    const replanned = await act([...args, '--resume', '--replan'], { cwd: own });
    expect(replanned.stderr).toMatch(/since run \w+ changed: the bundle's files or lock/);
    expect(started(replanned)).toEqual(['cell[b]']);

    const again = await act([...args, '--resume'], { cwd: own });
    expect(again.stderr).not.toContain('changed');
    expect(started(again)).toEqual(['cell[b]']);
  });

  it('B88 B95 runs a step that ended unknown again only if it is idempotent or named', async () => {
    expectCode(await act(['install', 'lost']), 0);
    const ran = await loseTheStep('lost', 'vanishes');
    expectCode(ran, 51);
    expect(ran.stderr).toContain('nothing tells how step vanishes ended');
    expect(ran.stderr).toContain('--resume --rerun vanishes');
    expect((await lastRun('lost')).state).toBe('unknown');

    const refused = expectCode(await invoke('lost', 'vanishes', ['--resume']), 51);
    expect(started(refused)).toEqual([]);
    const named = expectCode(
      await invoke('lost', 'vanishes', [
        '--resume',
        '--replan',
        '--rerun',
        'vanishes',
        '--param',
        'word=ends',
      ]),
      0,
    );
    expect(started(named)).toEqual(['vanishes']);

    expectCode(await loseTheStep('lost', 'vanishes-well'), 51);
    const well = expectCode(
      await invoke('lost', 'vanishes-well', ['--resume', '--replan', '--param', 'word=ends']),
      0,
    );
    expect(started(well)).toEqual(['vanishes-well']);
  });

  it('B89 shows the plan of a dry run and runs nothing', async () => {
    const env = { TOKEN: 'not-to-be-seen' };
    const args = [
      ...['invoke', 'planned', '--action', 'plan-me', '--force', '--dry-run', '--param', 'word=hello'],
      ...['--credential', 'token=env:TOKEN'],
    ];

    // It ends as the run would: a consent is missing.
    const text = expectCode(await world.skycap(args, { cwd, env }), 45);
    const json = expectCode(await world.skycap([...args, '-o', 'json'], { cwd, env }), 45);
    expect(text.stderr).toContain('[CONSENT_MISSING]');

    for (const part of [
      '1. make',
      '2. use',
      'echo hello',
      '⟨output ip of make⟩',
      'sha256:',
      'token',
      'docker for image socket',
    ]) {
      expect(text.stdout).toContain(part);
    }
    expect(text.stdout).toMatch(/missing {2}docker/);
    expect(text.stdout + json.stdout + text.stderr).not.toContain('not-to-be-seen');
    const plan = json.json<{ steps: { id: string; needs: string[] }[]; images: Record<string, unknown> }>();
    expect(plan.steps.map((step) => [step.id, step.needs])).toEqual([
      ['make', []],
      ['use', ['make']],
      ['socket', ['use']],
    ]);
    expect(plan.images.tools).toMatchObject({ image: { digest: expect.stringMatching(/^sha256:/) } });
    const list = expectCode(await world.skycap(['installation', 'list', '-o', 'json']), 0);
    expect(list.json<{ name: string }[]>().map((one) => one.name)).not.toContain('planned');
  });

  it('B90 keeps the container of a failed step and says how to look inside', async () => {
    expectCode(await act(['install', 'kept']), 0);

    const ran = expectCode(await invoke('kept', 'breaks', ['--keep']), 50);

    const kept = ran.events.find((event) => event.type === 'step.kept');
    const [program = '', ...args] = (kept?.shell ?? []) as readonly string[];
    // The command wants a terminal: script(1) makes one.
    const line = [program, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
    const shell = spawnSync('script', ['-qec', line, '/dev/null'], {
      input: 'cat /left-behind; ls /cnab/app/beside; exit\n',
      encoding: 'utf8',
      env: world.env,
      timeout: 300_000,
    });
    expect(shell.stdout).toContain('in the root of it');
    expect(shell.stdout).toContain('/cnab/app/beside');
    const plain = expectCode(
      await world.skycap(['invoke', 'kept', '--action', 'breaks', '--keep'], { cwd }),
      50,
    );
    expect(plain.stderr).toContain(program);

    const without = expectCode(await invoke('kept', 'breaks'), 50);
    expect(without.events.some((event) => event.type === 'step.kept')).toBe(false);
  });

  it('B91 runs one step alone, which neither installs nor uninstalls', async () => {
    const nowhere = expectCode(await act(['step', 'run', 'make', '-i', 'alone', '--action', 'install']), 67);
    expect(nowhere.stderr).toContain('there is no installation alone');
    expectCode(await invokeNew('alone', 'change', ['--param', 'word=remembered']), 0);

    const ran = expectCode(await act(['step', 'run', 'use', '-i', 'alone', '--action', 'install']), 0);
    expect(started(ran)).toEqual(['use']);
    expect(printed(ran, 'use')).toBe('remembered was made');

    const gone = expectCode(await act(['step', 'run', 'leave', '-i', 'alone']), 0);
    expect(printed(gone, 'leave')).toBe('left');
    const shown = expectCode(await world.skycap(['installation', 'show', 'alone', '-o', 'json']), 0);
    expect(shown.json<{ status: Record<string, unknown> }>().status.uninstalled ?? null).toBeNull();
    // State and volumes are still there.
    expect(printed(expectCode(await invoke('alone', 'look'), 0), 'look')).toMatch(/^made \d time/);
    expect((await act(['step', 'run', 'mkae', '-i', 'alone'])).stderr).toContain(
      'the bundle has no step mkae',
    );
  });

  it('B92 takes parameters as given, remembered, from an output, by default', async () => {
    const own = (extra: string): string => {
      const folder = world.bundle({ 'porter.yaml': parameters(tools, extra) });
      return folder;
    };
    const folder = own('  - {name: old, type: string, default: d}\n');
    expectCode(await world.skycap(['lock'], { cwd: folder }), 0);
    const say = async (args: readonly string[], at = folder): Promise<string> =>
      printed(expectCode(await act(args, { cwd: at }), 0), 'say');

    expect(await say(['install', '--param', 'given=g', '--param', 'old=o'])).toBe('g default unset');
    // The output of the first run, and what was given to it.
    expect(await say(['upgrade'])).toBe('g default made');
    expect(await say(['upgrade', '--param', 'given=h', '--param', 'sourced=mine'])).toBe('h default mine');
    expect(await say(['upgrade'])).toBe('h default mine');

    const shown = async (): Promise<unknown> =>
      expectCode(await world.skycap(['installation', 'show', 'precedence', '-o', 'json']), 0).json<{
        parameters: unknown;
      }>().parameters;
    expect(JSON.stringify(await shown())).toContain('old');
    const later = own('');
    expectCode(await world.skycap(['lock'], { cwd: later }), 0);
    expect(await say(['upgrade'], later)).toBe('h default mine');
    expect(JSON.stringify(await shown())).not.toContain('old');
  });

  it('B93 keeps the records of an uninstall, removes the rest, and deletes only after one', async () => {
    expectCode(await act(['install', 'left']), 0);
    expect(volumes(world)).toBeGreaterThan(0);
    const before = volumes(world);
    const refused = await world.skycap(['installation', 'delete', 'left']);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('--force');

    const failing = expectCode(await act(['uninstall', 'left', '--param', 'word=fail']), 50);
    expect(failing.stderr).toContain('step leave ended');
    expect(volumes(world)).toBe(before);
    expect((await world.skycap(['installation', 'delete', 'left'])).code).not.toBe(0);

    expectCode(await act(['uninstall', 'left', '--param', 'word=ok']), 0);
    expect(volumes(world)).toBe(before - 1);
    expect((await runsOf('left')).map((run) => [run.action, run.status])).toEqual([
      ['install', 'succeeded'],
      ['uninstall', 'failed'],
      ['uninstall', 'succeeded'],
    ]);
    expectCode(await world.skycap(['installation', 'delete', 'left']), 0);
    expect((await world.skycap(['installation', 'show', 'left'])).code).not.toBe(0);

    // What failed to install may have left something: it has to be uninstalled, or forced.
    expectCode(await act(['install', 'half', '--param', 'word=fail']), 50);
    const half = await world.skycap(['installation', 'delete', 'half']);
    expect(half.code).not.toBe(0);
    expect(half.stderr).toContain('half was not uninstalled');
    expectCode(await world.skycap(['installation', 'delete', 'half', '--force']), 0);
  });

  it('B94 lists runs oldest first and shows their steps', async () => {
    expectCode(await act(['install', 'listed']), 0);
    expectCode(await invoke('listed', 'breaks'), 50);

    const runs = await runsOf('listed');
    expect(runs.map((run) => run.action)).toEqual(['install', 'breaks']);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect((await lastRun('listed')).steps).toMatchObject([
      {
        id: 'breaks',
        index: 0,
        state: 'failed',
        exitCode: 42,
        attempts: [{ number: 1, exitCode: 42 }],
        image: 'tools',
        startedAt: time,
        finishedAt: time,
      },
    ]);
    const text = expectCode(await world.skycap(['run', 'show', runs.at(-1)?.id ?? '']), 0);
    expect(text.stdout).toMatch(/breaks\s+failed\s+42/);
    const log = expectCode(await world.skycap(['run', 'logs', '-i', 'listed']), 0);
    expect(log.stdout).toContain('breaks | about to break');
  });

  it('B95 ends with 50 for a failed step and names its own code', async () => {
    expectCode(await act(['install', 'codes']), 0);

    const ran = expectCode(await world.skycap(['invoke', 'codes', '--action', 'breaks'], { cwd }), 50);

    expect(ran.stderr).toContain('step breaks ended with exit code 42');
    expect(ran.stderr).toContain('--keep');
  });

  it('B96 gives results on stdout and everything else on stderr', async () => {
    const text = expectCode(await world.skycap(['install', 'streams'], { cwd }), 0);
    expect(text.stdout).toContain('install of streams succeeded');
    expect(text.stdout).toContain('made');
    expect(text.stdout).not.toContain('to stdout');
    expect(text.stderr).toContain('make | to stdout');

    const json = expectCode(await act(['upgrade', 'streams', '-o', 'json']), 0);
    expect(json.json()).toMatchObject({ action: 'upgrade', state: 'succeeded' });
    expect(json.stderr.split('\n').filter((line) => line !== '')).toEqual(
      json.stderr.split('\n').filter((line) => line.startsWith('{')),
    );

    const failed = expectCode(
      await world.skycap(['invoke', 'streams', '--action', 'breaks', '-o', 'json'], { cwd }),
      50,
    );
    expect(failed.json()).toMatchObject({ state: 'failed' });
  });

  /** Installs and runs an action. */
  async function invokeNew(name: string, action: string, more: readonly string[] = []): Promise<Ran> {
    expectCode(await act(['install', name]), 0);
    return await invoke(name, action, more);
  }

  /** Ends the supervisor of a running step, so that nothing can tell how it ended. */
  async function loseTheStep(name: string, action: string): Promise<Ran> {
    const running = world.start(
      ['invoke', name, '--action', action, '--param', 'word=one', '--progress', 'json'],
      { cwd },
    );
    await running.said('waiting');
    const { id } = (await runsOf(name)).at(-1) as RunJson;
    for (const pid of supervisorsOf(world, id)) process.kill(pid, 'SIGKILL');
    await gate.open();
    return await running.ended;
  }
});

/** How many installations have volumes. */
function volumes(world: World): number {
  const found = execFileSync(
    'find',
    [world.directory, '-type', 'd', '-path', '*/volumes/*', '-name', 'count'],
    {
      encoding: 'utf8',
    },
  );
  return found.split('\n').filter((line) => line !== '').length;
}

const parameters = (tools: string, extra: string): string => `name: precedence
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}", network: none}
parameters:
  - {name: given, type: string, default: default}
  - {name: plain, type: string, default: default}
  - {name: sourced, type: string, default: unset, source: {output: made}}
${extra}outputs:
  - {name: made, type: string, sensitive: false}
install: &steps
  - description: Say
    id: say
    invoke:
      name: tools
      action:
        run: |
          echo "\${ bundle.parameters.given } \${ bundle.parameters.plain } \${ bundle.parameters.sourced }"
          printf made > /cnab/app/outputs/made
upgrade: *steps
`;

const bundle = (tools: string, wait: string): string => `name: acts
version: 1.0.0
invocationImages:
  - name: tools
    image: "${tools}"
    network: none
    volumes: [{name: count, path: /count, scope: installation}]
  - {name: socket, image: "${tools}", network: none, docker: true}
parameters:
  - {name: word, type: string, default: one}
credentials:
  - {name: token, env: TOKEN, required: false}
outputs:
  - {name: made, type: string, sensitive: false, applyTo: [install, upgrade, change]}
  - {name: cells, type: object, sensitive: false, applyTo: [long-way]}
customActions:
  look: {modifies: false}
  loose: {modifies: true, stateless: true}
  free: {modifies: false, stateless: true}
  wait: {modifies: true}
  change: {modifies: true}
  meet-a: {modifies: false}
  meet-b: {modifies: false}
  long-way: {modifies: true}
  vanishes: {modifies: true}
  vanishes-well: {modifies: true}
  breaks: {modifies: true}
  plan-me: {modifies: true}
install:
  - description: Make
    id: make
    invoke:
      name: tools
      env: {WORD: "\${ bundle.parameters.word }"}
      action:
        run: |
          echo to stdout
          echo x >> /count/times
          [ "$WORD" != slow ] || { echo about to write; ${wait}; }
          [ "$WORD" != fail ] || exit 8
          printf '%s' "$WORD" > /cnab/app/outputs/made
  - description: Use
    id: use
    credentials: [token]
    invoke: {name: tools, action: {command: [echo, "\${ bundle.outputs.made } was made"]}}
upgrade:
  - description: Upgrade
    id: upgrade
    invoke: {name: tools, action: {run: printf up > /cnab/app/outputs/made}}
uninstall:
  - description: Leave
    id: leave
    invoke:
      name: tools
      env: {WORD: "\${ bundle.parameters.word }"}
      action: {run: 'echo left; [ "$WORD" != fail ]'}
look:
  - description: Look
    id: look
    invoke: {name: tools, action: {run: 'echo "made $(wc -l < /count/times) time"'}}
loose:
  - description: Loose
    invoke: {name: tools, action: {command: [echo, loose]}}
free:
  - description: Free
    id: free
    invoke: {name: tools, action: {command: [echo, free]}}
wait:
  - description: Wait
    id: wait
    invoke:
      name: tools
      env: {WORD: "\${ bundle.parameters.word }"}
      action:
        run: |
          trap '[ "$WORD" = stubborn ] || { echo got TERM; exit 0; }' TERM
          echo waiting
          i=0
          while [ $i -lt 6000 ]; do i=$((i+1)); sleep 0.1 || :; done
change:
  - description: Change
    id: change
    invoke:
      name: tools
      env: {WORD: "\${ bundle.parameters.word }"}
      action: {run: 'printf %s "$WORD" > /cnab/app/outputs/made'}
meet-a:
  - description: A
    invoke: {name: tools, action: {run: 'touch /count/a; i=0; until [ -e /count/b ]; do i=$((i+1)); [ $i -lt 1200 ]; sleep 0.1; done'}}
meet-b:
  - description: B
    invoke: {name: tools, action: {run: 'touch /count/b; i=0; until [ -e /count/a ]; do i=$((i+1)); [ $i -lt 1200 ]; sleep 0.1; done'}}
long-way:
  - description: First
    id: first
    invoke:
      name: tools
      action: {command: [echo, -n, one]}
      outputs: [{name: said, stdout: true, sensitive: false}]
  - description: Cell
    id: cell
    matrix: {name: [a, b]}
    maxParallel: 1
    invoke:
      name: tools
      env: {CELL: "\${ matrix.name }", WORD: "\${ bundle.parameters.word }"}
      action:
        run: |
          touch "file-$CELL"
          [ "$CELL" = a ] || [ "$WORD" = other ] || exit 7
          printf 'of %s' "$CELL" > /cnab/app/outputs/cells
      outputs: [{name: cells, path: /cnab/app/outputs/cells}]
  - description: Last
    id: last
    invoke:
      name: tools
      env: {SAID: "\${ bundle.outputs.said }", CELLS: "\${ bundle.outputs.cells }"}
      action: {run: 'ls file-a file-b > /dev/null; echo "first said $SAID; a and b; $CELLS"'}
vanishes:
  - description: Vanishes
    id: vanishes
    invoke:
      name: tools
      env: {WORD: "\${ bundle.parameters.word }"}
      action: {run: 'if [ "$WORD" = ends ]; then exit 0; fi; echo waiting; ${wait}'}
vanishes-well:
  - description: Vanishes well
    id: vanishes-well
    idempotent: true
    invoke:
      name: tools
      env: {WORD: "\${ bundle.parameters.word }"}
      action: {run: 'if [ "$WORD" = ends ]; then exit 0; fi; echo waiting; ${wait}'}
breaks:
  - description: Breaks
    id: breaks
    invoke: {name: tools, action: {run: 'touch beside; echo in the root of it > /left-behind; echo about to break; exit 42'}}
plan-me:
  - description: Make
    id: make
    invoke:
      name: tools
      action: {command: [echo, "\${ bundle.parameters.word }"]}
      outputs: [{name: ip, stdout: true, sensitive: false}]
  - description: Use
    id: use
    credentials: [token]
    invoke: {name: tools, action: {command: [echo, "\${ bundle.outputs.ip }"]}}
  - description: Socket
    id: socket
    invoke: {name: socket, action: {command: [echo, socket]}}
`;
