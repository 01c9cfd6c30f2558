import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeImage, type FakeProcess, FakeWorld } from '../engine/fake/index.ts';
import type { Engine } from '../engine/index.ts';
import { type ActionWorld, makeActionWorld, type Outcome, ran } from './action.fixture.ts';
import { around, killedDuring, mortalState } from './interruption.fixture.ts';

let world: ActionWorld;
let host: FakeWorld;

beforeEach(async () => {
  world = await makeActionWorld();
  host = new FakeWorld();
});

afterEach(() => world[Symbol.asyncDispose]());

function step(id: string, more = ''): string {
  return `  - description: ${id}\n    id: ${id}\n${more}    invoke: {name: tools, action: {command: [${id}]}}\n`;
}

/** An image whose programs are called by the steps' names; those that are not given end with 0. */
function programs(
  given: Readonly<Record<string, (process: FakeProcess) => number | undefined | Promise<number>>>,
): {
  readonly image: FakeImage;
  readonly calls: string[];
} {
  const calls: string[] = [];
  return {
    calls,
    image: {
      run: (process) => {
        const name = process.argv[0] as string;
        calls.push(name);
        return given[name]?.(process);
      },
    },
  };
}

function killed(directory: string, action: string, body: (process: FakeProcess) => number): Promise<void> {
  return killedDuring(world, directory, { action, body, world: host });
}

const statuses = (outcome: Outcome): unknown =>
  ran(outcome).run.steps.map((record) => [record.id, record.state]);

describe('what an interrupted run left', () => {
  it('forgives what the step forgives, and keeps files outside the workspace', async () => {
    const directory = world.bundle(
      `state:\n  - {name: st, path: /var/lib/st}\ninstall:\n  - description: a\n    id: a\n    invoke: {name: tools, ignoreError: {exitCodes: [3]}, action: {command: [a]}}\nupgrade:\n${step('b')}`,
    );
    await killed(directory, 'install', (process) => {
      process.files.mkdir('/var');
      process.files.mkdir('/var/lib');
      process.files.write('/var/lib/st', 'kept');
      return 3;
    });
    let found = '';
    const { image } = programs({
      b: (process) => {
        found = process.files.text('/var/lib/st');
        return 0;
      },
    });

    await world.run(directory, 'upgrade', { image, world: host });

    expect(found).toBe('kept');
    const [install] = await world.state.listRuns({});
    expect(install).toMatchObject({ state: 'succeeded', steps: [{ state: 'succeeded', exitCode: 3 }] });
    expect(await world.state.listIntents({ namespace: '', name: 'mine' })).toEqual([]);
  });

  it('reads outputs in the workspace, and misses those that nobody wrote', async () => {
    const directory = world.bundle(
      `outputs:\n  - {name: made, type: string, sensitive: false, path: /cnab/app/made}\n  - {name: lacks, type: string, sensitive: false, applyTo: [install]}\ninstall:\n${step('a')}look:\n${step('b')}customActions:\n  look: {modifies: false}\n`,
    );
    await killed(directory, 'install', (process) => {
      process.files.write('made', 'by it');
      return 0;
    });
    const { image } = programs({});

    await world.run(directory, 'look', { image, world: host });

    const [install] = await world.state.listRuns({});
    expect(install).toMatchObject({ state: 'failed', errorCode: 'OUTPUT_MISSING' });
    const outputs = await world.state.latestOutputs(install?.installationId ?? '');
    expect(outputs.map((one) => [one.name, Buffer.from(one.value).toString()])).toEqual([['made', 'by it']]);
  });

  it('is on record whole or not at all where whoever takes it over is killed too', async () => {
    const directory = world.bundle(
      `outputs:\n  - {name: made, type: string, sensitive: false, applyTo: [install]}\ninstall:\n${step('a')}look:\n${step('b')}customActions:\n  look: {modifies: false}\n`,
    );
    await killed(directory, 'install', (process) => {
      process.files.write('/cnab/app/outputs/made', 'by it');
      return 0;
    });
    const { image, calls } = programs({});
    const second = mortalState(world.state, { after: (method) => /^put(Step|Output)$/.test(method) });
    void world.run(directory, 'look', { image, world: host, state: second.state });
    await second.dead;

    const record = async () => {
      const [install] = await world.state.listRuns({});
      const outputs = await world.state.runOutputs(install?.id ?? '');
      return [install?.state, install?.steps[0]?.state, ...outputs.map((one) => one.name)];
    };
    expect(await record()).toEqual(['running', 'succeeded', 'made']);

    await world.run(directory, 'look', { image, world: host });
    expect(await record()).toEqual(['succeeded', 'succeeded', 'made']);
    expect(calls).toEqual(['b']);
  });

  it('removes state after an uninstall that succeeded', async () => {
    const directory = world.bundle(
      `install:\n${step('a')}uninstall:\n${step('u')}look:\n${step('b')}customActions:\n  look: {modifies: false}\n`,
    );
    const { image } = programs({
      a: (process) => {
        process.files.write('state', 'x');
        return 0;
      },
    });
    const { installation } = ran(await world.run(directory, 'install', { image, world: host }));
    expect(await world.state.loadState(installation.id)).toBeDefined();

    await killed(directory, 'uninstall', () => 0);
    await world.run(directory, 'look', { image, world: host });

    expect(await world.state.getInstallation(installation)).toMatchObject({
      status: { uninstalled: expect.any(String) },
    });
    expect(await world.state.loadState(installation.id)).toBeUndefined();
  });

  it('is left to the engine that made it', async () => {
    const directory = world.bundle(`install:\n${step('a')}`);
    await killed(directory, 'install', () => 0);

    const other = (engine: Engine): Engine => ({ ...engine, name: 'other' });
    const next = world.run(directory, 'install', { world: host, around: other });

    await expect(next).rejects.toMatchObject({ code: 'RUN_OTHER_ENGINE', exitCode: 67 });
  });
});

describe('a run killed between two attempts', () => {
  it('has not succeeded where the first was stopped at its timeout and ended with 0', async () => {
    const directory = world.bundle(
      `install:\n${step('a', '    timeout: 300ms\n    retry: {attempts: 2, delay: 1ms}\n')}`,
    );
    const { image, calls } = programs({
      a: (process) => (calls.length === 1 ? new Promise((resolve) => process.onTerm(() => resolve(0))) : 0),
    });
    const { state, dead } = mortalState(world.state, {
      after: (method, [, , together]) => method === 'putStep' && Object.hasOwn(Object(together), 'ended'),
    });
    void world.run(directory, 'install', { image, world: host, state });
    await dead;

    const resumed = await world.run(directory, 'install', { image, world: host, resume: true });

    expect(calls).toEqual(['a', 'a']);
    expect(statuses(resumed)).toEqual([['a', 'succeeded']]);
    const [first] = await world.state.listRuns({});
    expect(first).toMatchObject({
      state: 'failed',
      steps: [{ state: 'failed', attempts: [{ state: 'failed', exitCode: 0, cause: 'timeout' }] }],
    });
  });
});

describe('a run that cannot begin or go on', () => {
  it('keeps what the run before it had finished', async () => {
    const directory = world.bundle(`install:\n${step('one')}${step('two')}`);
    let broken = true;
    const { image, calls } = programs({
      one: (process) => {
        process.files.write('seen', 'x');
        return 0;
      },
      two: (process) => (broken || !process.files.exists('seen') ? 3 : 0),
    });
    await world.run(directory, 'install', { image, world: host });
    const closed = (engine: Engine): Engine => ({
      ...engine,
      open: () => Promise.reject(new Error('the engine is away')),
    });
    await expect(
      world.run(directory, 'install', { image, world: host, resume: true, around: closed }),
    ).rejects.toThrow('away');
    broken = false;
    calls.length = 0;

    const resumed = await world.run(directory, 'install', { image, world: host, resume: true });

    expect(ran(resumed).result.state).toBe('succeeded');
    expect(calls).toEqual(['two']);
  });

  it('is closed with its steps where the engine fails', async () => {
    const directory = world.bundle(`install:\n${step('one')}`);
    const failing = around('run', () => Promise.reject(new Error('a fault')));

    await expect(world.run(directory, 'install', { world: host, around: failing })).rejects.toThrow(
      'a fault',
    );

    const [run] = await world.state.listRuns({});
    expect(run).toMatchObject({ state: 'errored', steps: [{ state: 'errored' }] });
    expect(await world.state.listIntents({ namespace: '', name: 'mine' })).toEqual([]);
    expect(host.runs.size).toBe(0);
  });

  it('keeps its workspace although others look at the installation', async () => {
    const directory = world.bundle(
      `install:\n${step('one')}${step('two')}look:\n${step('see')}customActions:\n  look: {modifies: false}\n`,
    );
    let broken = true;
    const { image, calls } = programs({ two: () => (broken ? 3 : 0) });
    await world.run(directory, 'install', { image, world: host });
    await world.run(directory, 'look', { image, world: host });
    expect(host.keptWorkspaces.size).toBe(1);
    broken = false;
    calls.length = 0;

    await world.run(directory, 'install', { image, world: host, resume: true });

    expect(calls).toEqual(['two']);
    expect(host.keptWorkspaces.size).toBe(0);
  });

  it('fills the workspace anew where it is not there any more', async () => {
    const directory = world.bundle(`install:\n${step('one')}${step('two')}`);
    let broken = true;
    let found = '';
    const { image } = programs({
      one: (process) => {
        process.files.write('made', 'by one');
        return 0;
      },
      two: (process) => {
        found = process.files.text('made');
        return broken ? 3 : 0;
      },
    });
    const first = await world.run(directory, 'install', { image, world: host });
    const other = (engine: Engine): Engine => ({ ...engine, name: 'other' });
    broken = false;
    found = '';

    const second = await world.run(directory, 'install', {
      image,
      world: new FakeWorld(),
      around: other,
      resume: true,
    });

    expect(statuses(first)).toEqual([
      ['one', 'succeeded'],
      ['two', 'failed'],
    ]);
    expect(ran(second).result.state).toBe('succeeded');
    expect(found).toBe('by one');
  });

  it('says which step --rerun may have meant', async () => {
    const directory = world.bundle(`install:\n${step('one')}`);
    const { image } = programs({ one: () => 1 });
    await world.run(directory, 'install', { image, world: host });

    const again = world.run(directory, 'install', { image, world: host, resume: true, rerun: ['oen'] });

    await expect(again).rejects.toMatchObject({
      code: 'STEP_NOT_FOUND_IN_PLAN',
      hint: expect.stringMatching(/^did you mean one\? it has /),
    });
  });
});

describe('a step run alone', () => {
  it('needs an installation, and neither installs nor uninstalls', async () => {
    const directory = world.bundle(
      `outputs:\n  - {name: never, type: string, sensitive: false}\ninstall:\n${step('one')}uninstall:\n${step('two')}`,
    );
    const { image } = programs({
      one: (process) => {
        process.files.write('/cnab/app/outputs/never', 'x');
        return 0;
      },
    });
    await expect(world.run(directory, 'install', { image, world: host, only: 'one' })).rejects.toMatchObject({
      code: 'INSTALLATION_NOT_FOUND',
    });
    await world.run(directory, 'install', { image, world: host });

    const alone = await world.run(directory, 'uninstall', { image, world: host, only: 'two' });

    expect(ran(alone).result.state).toBe('succeeded');
    expect(ran(alone).installation.status.uninstalled).toBeUndefined();
    await expect(world.run(directory, 'install', { image, world: host })).rejects.toMatchObject({
      code: 'INSTALLATION_EXISTS',
    });
  });
});

describe('steps side by side', () => {
  it('each add their files outside the workspace', async () => {
    const directory = world.bundle(
      `outputs:\n  - {name: x, type: string, sensitive: false, path: /x}\n  - {name: y, type: string, sensitive: false, path: /y}\ninstall:\n${step('a', '    needs: []\n')}${step('b', '    needs: []\n')}${step('c')}`,
    );
    let found = '';
    const { image } = programs({
      a: (process) => {
        process.files.write('/x', 'of a');
        return 0;
      },
      b: (process) => {
        process.files.write('/y', 'of b');
        return 0;
      },
      c: (process) => {
        found = `${process.files.text('/x')} ${process.files.text('/y')}`;
        return 0;
      },
    });

    // Both are collected before either is put with the others.
    let here = 0;
    const { promise: both, resolve } = Promise.withResolvers<void>();
    const collecting = around('collect', async (collect) => {
      const files = await collect();
      here += 1;
      if (here === 2) resolve();
      await both;
      return files;
    });

    await world.run(directory, 'install', { image, world: host, around: collecting });

    expect(found).toBe('of a of b');
  });

  it('make one typed object, without cells that are no more', async () => {
    const matrix = (values: string): string =>
      world.bundle(
        `outputs:\n  - {name: n, type: object, additionalProperties: {type: integer}, sensitive: false}\ninstall: &steps\n  - description: m\n    id: m\n    matrix: {of: [${values}]}\n    invoke:\n      name: tools\n      action: {command: [say, "\${ matrix.of }"]}\n      outputs: [{name: n, stdout: true}]\nupgrade: *steps\n`,
      );
    const image: FakeImage = { run: (process) => process.stdout(String(process.argv[1]?.length)) };
    await world.run(matrix('a, bb'), 'install', { image, world: host });

    const { result } = ran(await world.run(matrix('bb, ccc'), 'upgrade', { image, world: host }));

    expect(result.outputs.get('n')?.json).toEqual({ bb: 2, ccc: 3 });
  });
});
