import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeProcess, FakeWorld } from '../engine/fake/index.ts';
import { runError } from '../run/index.ts';
import { type ActionOptions, type ActionWorld, makeActionWorld, type Outcome } from './action.fixture.ts';
import { around, killedDuring } from './interruption.fixture.ts';

let world: ActionWorld;

beforeEach(async () => {
  world = await makeActionWorld();
});

afterEach(() => world[Symbol.asyncDispose]());

const secret = 'correct-horse';

/** A step `say` with these outputs. */
function bundle(outputs: string, head = ''): string {
  return world.bundle(
    `${head}install:\n  - description: Say\n    id: say\n    invoke:\n      name: tools\n      action: {command: [say]}\n      outputs: [${outputs}]\n`,
  );
}

function says(
  text: string,
  more: (process: FakeProcess) => number | undefined = () => 0,
): Pick<ActionOptions, 'image'> {
  return {
    image: {
      run: (process) => {
        process.stderr('begins\n');
        process.stdout(text);
        return more(process);
      },
    },
  };
}

const shown = ({ events }: Outcome): string =>
  events.flatMap((event) => (event.type === 'step.output' ? [event.text] : [])).join('');
const hidden = ({ events }: Outcome): readonly string[] =>
  events.flatMap((event) => ('code' in event && event.code === 'output-hidden' ? [event.message] : []));

describe('held output', () => {
  const token = '{name: token, jsonPath: $.token}';
  const whole = '{name: token, stdout: true}';
  it.each<[string, { outputs: string; head?: string } & ActionOptions]>([
    ['stdout is no JSON', { outputs: token, ...says(`token: ${secret}\n`) }],
    ['its query finds nothing', { outputs: token, ...says(`{"other": "${secret}"}`) }],
    [
      'the value does not fit its type',
      {
        outputs: whole,
        head: 'outputs:\n  - {name: token, type: integer, sensitive: true}\n',
        ...says(`${secret}\n`),
      },
    ],
    [
      'another file than its value is too large',
      {
        outputs: whole,
        ...says(`${secret}\n`, (process) => {
          process.files.sparse('/cnab/app/outputs/other', 300 * 1024 * 1024);
          return 0;
        }),
      },
    ],
    [
      'a file has the name of the value',
      {
        outputs: token,
        head: 'outputs:\n  - {name: token, type: string, sensitive: true}\n',
        ...says(`token: ${secret}\n`, (process) => {
          process.files.write('/cnab/app/outputs/token', 'another');
          return 0;
        }),
      },
    ],
    [
      'one of two values is missing',
      { outputs: `${whole}, {name: gone, regex: "gone=(.*)"}`, ...says(`${secret}\n`) },
    ],
    ['the step failed', { outputs: token, ...says(`token: ${secret}\n`, () => 3) }],
  ])('stays hidden where %s', async (_, { outputs, head, ...options }) => {
    const outcome = await world.run(bundle(outputs, head), 'install', options);

    expect(JSON.stringify(outcome.events)).not.toContain(secret);
    expect(shown(outcome)).toBe('');
    expect(hidden(outcome)).toEqual([expect.stringMatching(/^step say: .* (token|gone) .*--show-live/)]);
  });

  it('stays hidden where stdout is over its limit', async () => {
    const options = { graceMs: 200, alwaysGraceMs: 200, keep: false, showLive: false, maxOutputBytes: 8 };

    const outcome = await world.run(bundle(whole), 'install', { ...says(`${secret}\n`), options });

    expect(JSON.stringify(outcome.events)).not.toContain(secret);
    expect(hidden(outcome)).toHaveLength(1);
  });

  it('stays hidden where the engine fails', async () => {
    const failing = around('run', async (run) => {
      await run();
      throw runError('STEP_FAILED', 'the engine is away');
    });

    const outcome = await world.run(bundle(whole), 'install', { ...says(`${secret}\n`), around: failing });

    expect(JSON.stringify(outcome.events)).not.toContain(secret);
    expect(hidden(outcome)).toHaveLength(1);
  });

  it('is shown with the value masked, in whatever layout JSON was printed', async () => {
    const text = `{\n  "login": {\n    "user": "somebody",\n    "password": "${secret}"\n  }\n}\n`;

    const outcome = await world.run(bundle('{name: login, jsonPath: $.login}'), 'install', says(text));

    expect(shown(outcome)).toContain('"password": "*******"');
    expect(hidden(outcome)).toEqual([]);
  });

  it('is shown with each of the matches masked', async () => {
    const outcome = await world.run(
      bundle('{name: pins, regex: "pin=(.*)"}'),
      'install',
      says('pin=12345\nand\npin=6789\n'),
    );

    expect(shown(outcome)).toBe('begins\npin=*******\nand\npin=*******\n');
  });

  it('is shown where stdout, which has to hold the value, is empty', async () => {
    const outcome = await world.run(
      bundle(token),
      'install',
      says('', () => 3),
    );

    expect(shown(outcome)).toBe('begins\n');
    expect(hidden(outcome)).toEqual([]);
  });
});

describe('the output of an interrupted run', () => {
  it('stays hidden where nothing tells how the step ended', async () => {
    const directory = bundle('{name: token, stdout: true}');
    const home = new FakeWorld();
    const body = (process: FakeProcess): number => {
      process.stdout(`${secret}\n`);
      return 0;
    };
    await killedDuring(world, directory, { action: 'install', world: home, body });
    const gone = around('attach', async (attach) => {
      await attach();
      return { exitCode: -1, cause: 'unknown', startedAt: '', finishedAt: '' };
    });

    const next = await world.run(directory, 'install', { world: home, around: gone, ...says('') });

    expect(JSON.stringify(next.events)).not.toContain(secret);
    expect(hidden(next)).toHaveLength(1);
  });

  const token = { token: { kind: 'env', name: 'TOKEN' } } as const;
  it.each<[string, string, ActionOptions['credentials']?]>([
    ['a credential', 'credentials:\n  - {name: token, env: TOKEN}\n', token],
    [
      'a sensitive parameter',
      `parameters:\n  - {name: token, type: string, sensitive: true, default: ${secret}}\n`,
    ],
    [
      'a sensitive output',
      'outputs:\n  - {name: token, type: string, sensitive: true, applyTo: [install], default: none}\n',
    ],
  ])('stays hidden where a file may have brought %s', async (_, head, credentials = {}) => {
    const of = (id: string, more = ''): string =>
      `  - description: ${id}\n    id: ${id}\n${more}    invoke: {name: tools, action: {command: [${id}]}}\n`;
    const directory = world.bundle(
      `${head}install:\n${of('knows', '    credentials: all\n')}${of('blind', '    credentials: []\n    parameters: []\n')}`,
    );
    const home = new FakeWorld();
    await killedDuring(world, directory, {
      action: 'install',
      world: home,
      step: 'blind',
      credentials,
      body: (process) => {
        if (process.argv[0] === 'knows') process.files.write('token', secret);
        else process.stdout(`it is ${process.files.text('token')}\n`);
        return 0;
      },
    });

    const next = await world.run(directory, 'install', { world: home, resume: true, credentials });

    expect(JSON.stringify(next.events)).not.toContain(secret);
    expect(hidden(next)).toEqual([expect.stringMatching(/^step blind: /)]);
  });

  it('is shown where the run had no secrets, with those of runs before it masked', async () => {
    const of = (id: string): string =>
      `  - description: ${id}\n    id: ${id}\n    invoke: {name: tools, action: {command: [${id}]}}\n`;
    const directory = world.bundle(
      `outputs:\n  - {name: token, type: string, sensitive: true, applyTo: [install]}\ninstall:\n${of('make')}upgrade:\n${of('use')}`,
    );
    const home = new FakeWorld();
    const make = {
      run: (process: FakeProcess) => process.files.write('/cnab/app/outputs/token', secret),
    };
    await world.run(directory, 'install', { world: home, image: make });
    await killedDuring(world, directory, {
      action: 'upgrade',
      world: home,
      body: (process) => {
        process.stdout(`it is ${secret}\n`);
        return 0;
      },
    });

    const next = await world.run(directory, 'upgrade', { world: home, resume: true });

    expect(shown(next)).toBe('it is *******\n');
    expect(hidden(next)).toEqual([]);
  });
});
