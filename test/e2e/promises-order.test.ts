import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

interface Attempt {
  readonly number: number;
  readonly state: string;
  readonly cause?: string;
  readonly startedAt: string;
  readonly finishedAt: string;
}

interface StepJson {
  readonly id: string;
  readonly state: string;
  readonly exitCode?: number;
  readonly message?: string;
  readonly startedAt?: string;
  readonly attempts: readonly Attempt[];
}

interface RunJson {
  readonly id: string;
  readonly state: string;
  readonly message?: string;
  readonly steps: readonly StepJson[];
  readonly outputs: readonly { readonly name: string; readonly value: unknown }[];
}

function printed(ran: Ran, step: string): string {
  return ran.events
    .filter((event) => event.type === 'step.output' && event.step === step)
    .map((event) => event.text)
    .join('')
    .trimEnd();
}

/** State of each step by id. */
function states(run: RunJson): Record<string, string> {
  return Object.fromEntries(run.steps.map((step) => [step.id, step.state]));
}

describe.each(enginesToTest('oci-runtime', 'docker'))('the order of steps on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    cwd = world.bundle({ 'porter.yaml': bundle(await world.image('tools:1')) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(await world.skycap(['install'], { cwd }), 0);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const invoke = (action: string, more: readonly string[] = []): Promise<Ran> =>
    world.skycap(['invoke', 'order', '--action', action, '-o', 'json', '--progress', 'json', ...more], {
      cwd,
    });

  async function lastRun(name = 'order'): Promise<RunJson> {
    const runs = expectCode(await world.skycap(['run', 'list', '-i', name, '-o', 'json']), 0).json<
      { id: string }[]
    >();
    const id = runs.at(-1)?.id ?? '';
    return expectCode(await world.skycap(['run', 'show', id, '-o', 'json']), 0).json<RunJson>();
  }

  it('B40 B41 waits for all before it, for nothing, or for what needs names', async () => {
    // Each step waits inside for what has to run beside it, and fails if that does not come.
    const run = expectCode(await invoke('graph'), 0).json<RunJson>();

    expect(states(run)).toEqual({ a: 'succeeded', b: 'succeeded', d: 'succeeded', c: 'succeeded' });
  });

  it('B42 starts only always steps after a failure, and keeps the first error', async () => {
    const ran = expectCode(await invoke('fails'), 50);

    expect(ran.stderr).toContain('step bad ended with exit code 3');
    expect(ran.stderr).toContain('STEP_FAILED');
    const run = await lastRun();
    expect(states(run)).toEqual({
      good: 'succeeded',
      bad: 'failed',
      beside: 'succeeded',
      next: 'pending',
      'clean-up': 'failed',
      last: 'succeeded',
    });
    expect(run.message).toContain('exit code 3');
    // What needs a failed step starts once that ended; what needs a step that goes on waits for its end.
    expect(printed(ran, 'clean-up')).toBe('beside is done');
    expect(printed(ran, 'last')).toBe('last of all');
  });

  it('B43 skips where when is false: needs are met, and outputs keep their value', async () => {
    expectCode(await invoke('maybe', ['--param', 'on=true']), 0);

    const ran = expectCode(await invoke('maybe', ['--param', 'on=false']), 0);

    expect(states(ran.json<RunJson>())).toEqual({ maker: 'skipped', user: 'succeeded' });
    expect(printed(ran, 'maker')).toBe('');
    expect(printed(ran, 'user')).toBe('it is first');
  });

  it('B43 wants true or false', async () => {
    const ran = await invoke('neither');

    expect(ran.code).not.toBe(0);
    expect(ran.stderr).toContain('CONDITION_INVALID');
    expect(ran.stderr).toContain('step neither[0]');
  });

  it('B44 ends each attempt at its timeout', async () => {
    const ran = expectCode(await invoke('slow', ['--grace', '1s']), 50);

    expect(ran.stderr).toContain('STEP_TIMEOUT');
    expect(ran.stderr).toContain('step sleeps ran longer than its timeout of 1s');
    const [step] = (await lastRun()).steps;
    expect(step?.attempts.map((attempt) => attempt.cause)).toEqual(['timeout', 'timeout']);
    for (const attempt of step?.attempts ?? []) {
      const tookMs = Date.parse(attempt.finishedAt) - Date.parse(attempt.startedAt);
      expect(tookMs).toBeGreaterThanOrEqual(900);
      // Its command would take longer.
      expect(tookMs).toBeLessThan(600_000);
    }
  });

  it('B44 keeps the timeout after the tool was killed', async () => {
    // It dies by itself as soon as the step runs, however long that took.
    const env = { SKYCAP_FAILPOINT: 'running' };
    const first = await world.skycap(['install', 'orphan', '--param', 'on=true'], { cwd, env });
    expect(first.signal).toBe('SIGKILL');

    const next = expectCode(await world.skycap(['uninstall', 'orphan', '--progress', 'json'], { cwd }), 0);

    const taken = next.events.find((event) => event.type === 'step.finished' && event.step === 'maybe-long');
    expect(taken).toMatchObject({ state: 'failed', exitCode: 143 });
    const runs = expectCode(await world.skycap(['run', 'list', '-i', 'orphan', '-o', 'json']), 0).json<
      { id: string }[]
    >();
    const run = expectCode(await world.skycap(['run', 'show', runs[0]?.id ?? '', '-o', 'json']), 0);
    expect(run.json<RunJson>().steps[0]?.attempts[0]).toMatchObject({ cause: 'timeout' });
  });

  it('B45 tries again after a growing delay, in the workspace as it was left', async () => {
    const ran = expectCode(await invoke('flaky'), 50);

    const delays = ran.events.filter((event) => event.type === 'step.retrying');
    expect(delays.map((event) => [event.step, event.exitCode, event.delayMs])).toEqual([
      ['any-code', 4, 300],
      ['any-code', 5, 900],
    ]);
    expect(printed(ran, 'any-code')).toBe('attempt 1\nattempt 2\nattempt 3');
    const [any, listed] = (await lastRun()).steps;
    const pauses = (any?.attempts ?? []).map((attempt, at, all) =>
      at === 0 ? 0 : Date.parse(attempt.startedAt) - Date.parse(all[at - 1]?.finishedAt ?? ''),
    );
    expect(pauses[1]).toBeGreaterThanOrEqual(290);
    expect(pauses[2]).toBeGreaterThanOrEqual(890);
    // Its onExit names 75 and not 8.
    expect([listed?.state, listed?.exitCode, listed?.attempts.length]).toEqual(['failed', 8, 1]);
  });

  it('B46 runs a container per value, so many at once, and makes one object of their outputs', async () => {
    const ran = expectCode(await invoke('regions'), 0);

    const run = ran.json<RunJson>();
    expect(run.steps.map((step) => step.id)).toEqual(['deploy[eu]', 'deploy[us]', 'deploy[asia]', 'all']);
    const most = ['eu', 'us', 'asia'].map((region) => printed(ran, `deploy[${region}]`));
    // The first two wait for each other; a third one beside them would be counted.
    expect(most).toEqual(['2 at most', '2 at most', '2 at most']);
    expect(run.outputs.find((output) => output.name === 'ip')?.value).toEqual({
      eu: 'ip-eu',
      us: 'ip-us',
      asia: 'ip-asia',
    });
    expect(printed(ran, 'all')).toBe('asia eu us, us is ip-us');
  });

  it('B46 ends the other cells of a failFast matrix and says why the run failed', async () => {
    const ran = expectCode(await invoke('fast', ['--grace', '2s']), 50);

    expect(ran.stderr).toContain('step cell[x] ended with exit code 5');
    const run = await lastRun();
    expect(run.state).toBe('failed');
    expect(states(run)).toEqual({ 'cell[x]': 'failed', 'cell[y]': 'aborted', 'cell[z]': 'pending' });
  });

  it('B47 gives TERM and the grace time, runs always steps, and says 130', async () => {
    const running = world.start(
      ['invoke', 'order', '--action', 'long', '--grace', '2m', '--progress', 'json'],
      { cwd },
    );
    await running.said('ready to end');
    running.process.kill('SIGINT');
    const ran = expectCode(await running.ended, 130);

    expect(printed(ran, 'long')).toBe('ready to end\ngot TERM\nput away');
    expect(printed(ran, 'tidy')).toBe('tidied');
    const run = await lastRun();
    expect(run.state).toBe('aborted');
    expect(states(run)).toEqual({ long: 'aborted', never: 'pending', tidy: 'succeeded' });
  });

  it('B47 kills a step that does not end within its grace time', async () => {
    const running = world.start(
      ['invoke', 'order', '--action', 'stubborn', '--grace', '1s', '--progress', 'json'],
      { cwd },
    );
    await running.said('not listening');
    running.process.kill('SIGINT');
    const ran = expectCode(await running.ended, 130);

    expect(printed(ran, 'tidy')).toBe('tidied');
    expect((await lastRun()).steps[0]).toMatchObject({ state: 'aborted', exitCode: 137 });
  });

  it('B47 kills at the second Ctrl-C, and starts nothing more', async () => {
    const running = world.start(
      ['invoke', 'order', '--action', 'stubborn', '--grace', '10m', '--progress', 'json'],
      { cwd },
    );
    await running.said('not listening');
    running.process.kill('SIGINT');
    await running.said('cancel.requested');
    await sleep(300);
    running.process.kill('SIGINT');
    expectCode(await running.ended, 130);

    expect(states(await lastRun())).toEqual({ stubborn: 'aborted', tidy: 'pending' });
  });

  it('B48 refuses two steps side by side that declare the same output', async () => {
    const twice = (second: string): string =>
      world.bundle({
        'porter.yaml': `name: twice
version: 1.0.0
invocationImages:
  - {name: tools, image: "localhost/tools:1"}
install:
  - description: One
    id: one
    needs: []
    invoke: {name: tools, action: {command: [echo, a]}, outputs: [{name: ip, stdout: true}]}
  - description: Two
    id: two
    ${second}
    invoke: {name: tools, action: {command: [echo, b]}, outputs: [{name: ip, stdout: true}]}
`,
      });

    const refused = expectCode(await world.skycap(['lint'], { cwd: twice('needs: []') }), 10);
    expect(refused.stdout + refused.stderr).toMatch(/porter\.yaml:13:\d+: error: .*ip/);
    expectCode(await world.skycap(['lint'], { cwd: twice('needs: [one]') }), 0);
  });
});

/** Waits up to two minutes and more for a file of another step. */
const until = (file: string): string =>
  `i=0; until [ -e ${file} ]; do i=$((i+1)); [ $i -lt 1200 ] || exit 11; sleep 0.1; done`;

const bundle = (tools: string): string => `name: order
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}", network: none}
parameters:
  - {name: on, type: boolean, default: false}
  - {name: word, type: string, default: maybe}
state: []
customActions:
  graph: {modifies: true}
  fails: {modifies: true}
  maybe: {modifies: true}
  neither: {modifies: true}
  slow: {modifies: true}
  flaky: {modifies: true}
  regions: {modifies: true}
  fast: {modifies: true}
  long: {modifies: true}
  stubborn: {modifies: true}
outputs:
  - {name: word, type: string, sensitive: false, applyTo: [maybe]}
  - {name: ip, type: object, sensitive: false, applyTo: [regions]}
install:
  - description: Long if wanted
    id: maybe-long
    when: \${ bundle.parameters.on }
    timeout: 3s
    invoke: {name: tools, action: {command: [sleep, '600']}}
graph:
  - description: A
    id: a
    needs: []
    invoke: {name: tools, action: {run: '${until('b-began')}; touch a-done'}}
  - description: B
    id: b
    needs: []
    invoke: {name: tools, action: {run: 'touch b-began; ${until('d-began')}; touch b-done'}}
  - description: D
    id: d
    needs: [a]
    invoke: {name: tools, action: {run: 'test -e a-done; test ! -e b-done; touch d-began; ${until('b-done')}; sleep 0.3; touch d-done'}}
  - description: C
    id: c
    invoke: {name: tools, action: {run: 'test -e a-done; test -e b-done; test -e d-done'}}
fails:
  - description: Good
    id: good
    needs: []
    invoke: {name: tools, action: {command: [echo, good]}}
  - description: Bad
    id: bad
    needs: [good]
    invoke: {name: tools, action: {run: '${until('beside-began')}; touch bad-ended; exit 3'}}
  - description: Beside
    id: beside
    needs: [good]
    invoke: {name: tools, action: {run: 'touch beside-began; ${until('bad-ended')}; sleep 1; touch beside-done'}}
  - description: Next
    id: next
    needs: [bad]
    invoke: {name: tools, action: {command: [echo, next]}}
  - description: Clean up
    id: clean-up
    needs: [next, beside]
    always: true
    invoke: {name: tools, action: {run: 'if [ -e beside-done ]; then echo beside is done; fi; exit 9'}}
  - description: Last
    id: last
    always: true
    invoke: {name: tools, action: {command: [echo, last of all]}}
maybe:
  - description: Maker
    id: maker
    when: \${ bundle.parameters.on }
    invoke: {name: tools, action: {command: [echo, -n, first]}, outputs: [{name: word, stdout: true}]}
  - description: User
    id: user
    needs: [maker]
    invoke: {name: tools, action: {command: [echo, "it is \${ bundle.outputs.word }"]}}
neither:
  - description: Neither
    when: \${ bundle.parameters.word }
    invoke: {name: tools, action: {command: [echo, ran]}}
slow:
  - description: Sleeps
    id: sleeps
    timeout: 1s
    retry: {attempts: 2, delay: 100ms}
    invoke: {name: tools, action: {command: [sleep, '600']}}
flaky:
  - description: Any code
    id: any-code
    retry: {attempts: 3, delay: 300ms, factor: 3}
    invoke:
      name: tools
      action:
        run: |
          echo x >> tries
          n=$(wc -l < tries)
          echo "attempt $n"
          [ "$n" = 3 ] || exit $((n + 3))
  - description: Other code
    id: listed
    retry: {attempts: 3, delay: 100ms, onExit: [75]}
    invoke: {name: tools, action: {command: [sh, -c, exit 8]}}
regions:
  - description: Deploy
    id: deploy
    matrix: {region: [eu, us, asia]}
    maxParallel: 2
    invoke:
      name: tools
      env: {REGION: "\${ matrix.region }"}
      action:
        run: |
          touch "began-$REGION" "runs-$REGION"
          [ "$REGION" = asia ] || { ${until('began-eu')}; ${until('began-us')}; }
          sleep 1
          echo "$(ls runs-* | wc -l | sed 's/^1$/2/') at most" >&2
          rm "runs-$REGION"
          printf 'ip-%s' "$REGION" > /cnab/app/outputs/ip
      outputs: [{name: ip, path: /cnab/app/outputs/ip}]
  - description: All
    id: all
    needs: [deploy]
    invoke:
      name: tools
      env: {US: "\${ bundle.outputs.ip.us }"}
      action: {run: 'echo $(ls began-* | sed s/began-//), us is $US'}
fast:
  - description: Cell
    id: cell
    matrix: {name: [x, y, z]}
    maxParallel: 2
    failFast: true
    invoke:
      name: tools
      env: {CELL: "\${ matrix.name }"}
      action:
        run: |
          if [ "$CELL" = x ]; then ${until('y-began')}; exit 5; fi
          touch "$CELL-began"
          sleep 600
long:
  - description: Long
    id: long
    invoke:
      name: tools
      action:
        run: |
          trap 'echo got TERM; sleep 1; echo put away; exit 0' TERM
          echo ready to end
          i=0
          while [ $i -lt 1000 ]; do i=$((i+1)); sleep 0.1; done
  - description: Never
    id: never
    invoke: {name: tools, action: {command: [echo, never]}}
  - description: Tidy
    id: tidy
    always: true
    invoke: {name: tools, action: {command: [echo, tidied]}}
stubborn:
  - description: Stubborn
    id: stubborn
    invoke:
      name: tools
      action:
        run: |
          trap '' TERM
          echo not listening
          i=0
          while [ $i -lt 1000 ]; do i=$((i+1)); sleep 0.1; done
  - description: Tidy
    id: tidy
    always: true
    invoke: {name: tools, action: {command: [echo, tidied]}}
`;
