import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeImage, FakeWorld } from '../engine/fake/index.ts';
import { type ActionWorld, makeActionWorld, type Outcome, ran } from './action.fixture.ts';

let world: ActionWorld;

beforeEach(async () => {
  world = await makeActionWorld();
});

afterEach(() => world[Symbol.asyncDispose]());

describe('runAction', () => {
  it('goes from porter.yaml to a record', async () => {
    const directory = world.bundle(
      `outputs:\n  - {name: url, type: string, sensitive: false}\ninstall:\n  - description: Apply\n    id: apply\n    invoke: {name: tools, action: {command: [apply, "\${ bundle.name }"]}}\n`,
    );
    const image: FakeImage = {
      run: (process) => {
        process.stdout(`${process.argv.join(' ')} as ${process.env.CNAB_ACTION}\n`);
        process.files.write('/cnab/app/outputs/url', 'http://shop');
      },
    };

    const outcome = await world.run(directory, 'install', { image });

    const { result, run: record, installation } = ran(outcome);
    expect(result.state).toBe('succeeded');
    expect(record.steps).toMatchObject([
      { id: 'apply', state: 'succeeded', exitCode: 0, attempts: [{ number: 1, state: 'succeeded' }] },
    ]);
    expect(installation.status.installed).toBeDefined();
    expect(outcome.events).toContainEqual({
      type: 'step.output',
      step: 'apply',
      stream: 'stdout',
      text: 'apply shop as install\n',
    });
    expect(
      (await world.state.latestOutputs(installation.id)).map((output) => [
        output.name,
        Buffer.from(output.value).toString(),
      ]),
    ).toEqual([['url', 'http://shop']]);
    expect(await world.state.getRun(record.id)).toMatchObject({
      state: 'succeeded',
      steps: [{ id: 'apply', exitCode: 0 }],
    });
  });

  it('resumes with the parameters that the first run began with, though it wrote their source', async () => {
    const directory = world.bundle(`outputs:
  - {name: url, type: string}
parameters:
  - {name: old, type: string, default: none, source: {output: url}}
upgrade:
  - id: first
    description: First
    invoke: {name: tools, action: {command: [first, "\${ bundle.parameters.old }"]}}
  - id: second
    description: Second
    invoke: {name: tools, action: {command: [second, "\${ bundle.parameters.old }"]}}
install:
  - id: first
    description: First
    invoke: {name: tools, action: {command: [first, "\${ bundle.parameters.old }"]}}
`);
    const host = new FakeWorld();
    let fails = true;
    const image: FakeImage = {
      run: (process) => {
        const [id, old] = process.argv;
        process.stdout(`${id} ${old}\n`);
        if (id === 'second') return fails ? 1 : 0;
        process.files.write('/cnab/app/outputs/url', `${old}+`);
        return 0;
      },
    };
    const said = (outcome: Outcome): readonly string[] =>
      outcome.events.flatMap((event) => (event.type === 'step.output' ? [event.text] : []));
    expect(said(await world.run(directory, 'install', { image, world: host }))).toEqual(['first none\n']);
    expect(said(await world.run(directory, 'upgrade', { image, world: host }))).toEqual([
      'first none+\n',
      'second none+\n',
    ]);
    expect(said(await world.run(directory, 'upgrade', { image, world: host, resume: true }))).toEqual([
      'second none+\n',
    ]);
    fails = false;
    expect(said(await world.run(directory, 'upgrade', { image, world: host, resume: true }))).toEqual([
      'second none+\n',
    ]);
    expect(said(await world.run(directory, 'upgrade', { image, world: host }))).toEqual([
      'first none++\n',
      'second none++\n',
    ]);
  });

  it('stops after a failure, runs always steps, and resumes where it failed', async () => {
    const directory = world.bundle(
      ['one', 'two', 'three']
        .map(
          (id) =>
            `  - description: ${id}\n    id: ${id}\n    invoke: {name: tools, action: {command: [${id}]}}\n`,
        )
        .reduce((text, step) => text + step, 'install:\n') +
        '  - description: clean\n    id: clean\n    always: true\n    invoke: {name: tools, action: {command: [clean]}}\n',
    );
    const host = new FakeWorld();
    const calls: string[] = [];
    let broken = true;
    const image: FakeImage = {
      run: (process) => {
        calls.push(process.argv[0] as string);
        process.files.write('seen', calls.join(' '));
        return process.argv[0] === 'two' && broken ? 3 : 0;
      },
    };

    const first = await world.run(directory, 'install', { image, world: host });
    expect(ran(first).result.error).toMatchObject({ code: 'STEP_FAILED', exitCode: 50 });
    expect(calls).toEqual(['one', 'two', 'clean']);
    expect(ran(first).run.steps.map((step) => step.state)).toEqual([
      'succeeded',
      'failed',
      'pending',
      'succeeded',
    ]);

    broken = false;
    calls.length = 0;
    const second = await world.run(directory, 'install', { image, world: host, resume: true });
    expect(ran(second).result.state).toBe('succeeded');
    expect(calls).toEqual(['two', 'three', 'clean']);
    const record = await world.state.getRun(ran(second).run.id);
    expect(record?.steps.map((step) => step.attempts.map((one) => one.state))).toEqual(
      Array(4).fill(['succeeded']),
    );
  });

  it('masks credentials in everything it tells, and gives them only to who names them', async () => {
    const directory = world.bundle(
      `credentials:\n  - {name: token, env: TOKEN}\ninstall:\n  - description: sees\n    id: sees\n    credentials: [token]\n    invoke: {name: tools, action: {command: [a]}}\n  - description: blind\n    id: blind\n    invoke: {name: tools, action: {command: [b]}}\n`,
    );
    const seen: (string | undefined)[] = [];
    const image: FakeImage = {
      run: (process) => {
        seen.push(process.env.TOKEN);
        process.stdout(`token is ${process.env.TOKEN ?? 'nothing'}`);
      },
    };

    const { events } = await world.run(directory, 'install', {
      image,
      credentials: { token: { kind: 'env', name: 'TOKEN' } },
    });

    expect(seen).toEqual(['hunter2-secret', undefined]);
    expect(JSON.stringify(events)).not.toContain('hunter2');
    expect(events).toContainEqual({
      type: 'step.output',
      step: 'sees',
      stream: 'stdout',
      text: 'token is *******',
    });
  });

  it('keeps what a run changed and restores it for the next action', async () => {
    const directory = world.bundle(
      'install:\n  - description: i\n    invoke: {name: tools, action: {command: [i]}}\nuninstall:\n  - description: u\n    invoke: {name: tools, action: {command: [u]}}\n',
      { 'main.tf': 'shipped' },
    );
    let found: string | undefined;
    const image: FakeImage = {
      programs: {
        i: (process) => {
          process.files.mkdir('sub');
          process.files.write('sub/terraform.tfstate', 'made');
        },
        u: (process) => {
          found = process.files.text('sub/terraform.tfstate') + process.files.text('main.tf');
        },
      },
    };

    await world.run(directory, 'install', { image });
    const gone = await world.run(directory, 'uninstall', { image });

    expect(found).toBe('madeshipped');
    expect(ran(gone).installation.status.uninstalled).toBeDefined();
  });

  it('refuses a second install, and an upgrade of nothing', async () => {
    const directory = world.bundle(
      'install:\n  - description: i\n    invoke: {name: tools, action: {command: [i]}}\nupgrade:\n  - description: u\n    invoke: {name: tools, action: {command: [i]}}\n',
    );
    const image: FakeImage = { run: () => 0 };

    await expect(world.run(directory, 'upgrade', { image })).rejects.toMatchObject({
      code: 'INSTALLATION_NOT_INSTALLED',
    });
    await world.run(directory, 'install', { image });
    await expect(world.run(directory, 'install', { image })).rejects.toMatchObject({
      code: 'INSTALLATION_EXISTS',
      exitCode: 67,
    });
  });

  it('gives one object for the outputs of a matrix', async () => {
    const directory = world.bundle(
      'install:\n  - description: m\n    id: m\n    matrix: {region: [eu, us]}\n    invoke:\n      name: tools\n      action: {command: [say, "${ matrix.region }"]}\n      outputs: [{name: ip, stdout: true, sensitive: false}]\n  - description: after\n    id: after\n    invoke: {name: tools, action: {command: [use, "${ bundle.outputs.ip.us }"]}}\n',
    );
    const calls: string[] = [];
    const image: FakeImage = {
      run: (process) => {
        calls.push(process.argv.join(' '));
        process.stdout(`ip-${process.argv[1]}`);
      },
    };

    await world.run(directory, 'install', { image });

    expect(calls.sort()).toEqual(['say eu', 'say us', 'use ip-us']);
  });

  it('plans without running for a dry run', async () => {
    const directory = world.bundle(
      'install:\n  - description: i\n    id: i\n    invoke: {name: tools, action: {args: ["${ installation.name }"]}}\n',
    );
    const image: FakeImage = {
      run: () => {
        throw new Error('a dry run ran something');
      },
    };

    const { result } = await world.run(directory, 'install', { image, dryRun: true });

    expect(result).toMatchObject({
      kind: 'planned',
      plan: { steps: [{ id: 'i', command: { argv: [{ value: 'tool' }, { value: 'mine' }] } }] },
    });
    expect(await world.state.listRuns({})).toEqual([]);
  });
});
