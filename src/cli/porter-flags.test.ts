import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import porter from '../../test/data/porter-cli.json' with { type: 'json' };
import { fakeHost, quietControls, runLine } from '../../test/support/fake-host.ts';
import { seedState } from '../../test/support/seed-state.ts';
import type { Event } from '../kernel/index.ts';
import { readAction } from './action/perform.ts';
import { entries } from './commands/index.ts';
import { createContext } from './context.ts';
import { flagsOf, parseInvocation } from './parse/flags.ts';
import { globalFlags } from './parse/globals.ts';
import { resolveCommand } from './parse/resolve.ts';
import { refusedFlags, refusedGlobals, refusedVerbs } from './porter-flags.ts';

/** One row for each verb and flag of Porter, as its reference lists them. */
const rows = porter.verbs.flatMap(({ verb, flags }) =>
  flags.map((flag) => ({ verb, flag: flag.name, short: (flag as { short?: string }).short })),
);

let folder: string;
let env: Record<string, string>;
let runId: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'skycap-porter-flags-'));
  env = {
    HOME: folder,
    XDG_DATA_HOME: join(folder, 'data'),
    XDG_CONFIG_HOME: join(folder, 'config'),
    XDG_CACHE_HOME: join(folder, 'cache'),
  };
  ({ runId } = await seedState(join(folder, 'data/skycap/state')));
  await writeFile(join(folder, 'porter.yaml'), bundle('one'));
  await writeFile(join(folder, 'other.yaml'), bundle('two'));
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

function bundle(name: string): string {
  return `schemaVersion: 1.0.1
name: ${name}
version: 0.1.0
description: For tests
invocationImages:
  - name: tools
    image: localhost/tools:1
parameters:
  - name: place
    type: string
    default: x
    applyTo: [install]
customActions:
  nothing:
    description: Nothing
nothing:
  - description: A
    invoke: {name: tools, action: {command: [echo, "\${ bundle.parameters.place }"]}}
install:
  - description: B
    invoke: {name: tools, action: {command: [echo, "\${ bundle.parameters.place }"]}}
uninstall:
  - description: C
    invoke: {name: tools, action: {command: ["true"]}}
`;
}

function resolved(verb: string) {
  return resolveCommand(
    verb.split(' ').filter((word) => word !== ''),
    entries,
  );
}

/** Each verb is one of ours, or refused. */
describe('verbs', () => {
  const names = [
    ...porter.verbs.map(({ verb }) => verb).filter((verb) => verb !== '' && verb !== 'run'),
    ...aliasLines(),
  ];
  test.each(names)('porter %s', async (verb) => {
    const { entry } = resolved(verb);
    if (entry !== undefined) {
      const { stdout, exitCode } = await runLine({ argv: [...verb.split(' '), '--help'], env });
      expect(exitCode).toBe(0);
      expect(stdout).toContain(`skycap ${entry.path}`);
      return;
    }
    const { exitCode, stderr, stdout } = await runLine({
      argv: [...verb.split(' '), '--some-flag', 'x'],
      env,
    });
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toMatch(/\[NOT_SUPPORTED\] porter .* is not supported, because /);
    expect(stderr).toMatch(/hint: \S/);
  });

  test('porter run, the program inside its images', async () => {
    const { exitCode, stderr } = await runLine({ argv: ['run', '--action', 'install'], env });
    expect(exitCode).toBe(2);
    expect(stderr).toContain('[NOT_SUPPORTED]');
  });
});

/** Every other name of Porter's groups, on one verb of the group. */
function aliasLines(): string[] {
  return Object.entries(porter.aliases).flatMap(([name, others]) => {
    const verbs = porter.verbs.map(({ verb }) => verb);
    const whole = verbs.includes(name) ? name : verbs.find((verb) => verb.startsWith(`${name} `));
    return whole === undefined ? [] : others.map((other) => other + whole.slice(name.length));
  });
}

describe('refused flags', () => {
  const refused = rows.filter((row) => fateOf(row.verb, row.flag) === 'refused');

  test.each(refused)('porter $verb --$flag', async ({ verb, flag, short }) => {
    for (const spelled of [`--${flag}`, ...(short === undefined ? [] : [`-${short}`])]) {
      const { exitCode, stderr, stdout } = await runLine({
        argv: [...verb.split(' ').filter((w) => w !== ''), spelled, 'x'],
        env,
      });
      expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
      expect(stderr).toMatch(/\[NOT_SUPPORTED\] .* is not supported, because /);
      expect(stderr).toMatch(/hint: \S/);
    }
  });
});

describe('accepted flags', () => {
  const accepted = rows.filter((row) => fateOf(row.verb, row.flag) === 'accepted');

  test('there are as many as the table of effects covers', () => {
    expect(accepted.length).toBeGreaterThan(100);
  });

  test.each(accepted)('porter $verb --$flag has its effect', async ({ verb, flag, short }) => {
    const path = verb === '' ? '' : (resolved(verb).entry?.path as string);
    const lines = (effects()[path] ?? effects()[''])?.[flag] ?? effects()['']?.[flag];
    expect(lines, `no effect is declared for ${path} --${flag}`).toBeDefined();
    const [without, withFlag] = lines as readonly [string, string];
    const words = (line: string): string[] =>
      [...verb.split(' '), ...line.split(' ')].filter((word) => word !== '');
    const before = await outcome(path, words(without));
    expect(await outcome(path, words(withFlag))).not.toEqual(before);
    if (short !== undefined) {
      const shortLine = withFlag.replace(`--${flag}`, `-${short}`);
      expect(shortLine).not.toBe(withFlag);
      expect(await outcome(path, words(shortLine))).toEqual(await outcome(path, words(withFlag)));
    }
  });
});

function fateOf(verb: string, flag: string): 'accepted' | 'refused' | 'verb' {
  if (verb === 'run') {
    return 'refused';
  }
  const path = verb === '' ? '' : resolved(verb).entry?.path;
  if (path === undefined) {
    return 'verb';
  }
  return [...(refusedFlags[path] ?? []), ...refusedGlobals].some((refused) => refused.name === flag)
    ? 'refused'
    : 'accepted';
}

test('every flag is either declared by the command or refused, never both and never neither', async () => {
  const wrong: string[] = [];
  for (const { verb, flag } of rows) {
    const { entry } = resolved(verb);
    if (entry === undefined || verb === '' || verb === 'run') {
      continue;
    }
    const command = await entry.load();
    const declared = flagsOf(command).some((f) => f.name === flag || (f.aliases ?? []).includes(flag));
    if (declared === (fateOf(verb, flag) === 'refused')) {
      wrong.push(`${verb} --${flag}`);
    }
  }
  expect(wrong).toEqual([]);
});

test('the tables refuse nothing that Porter does not have', () => {
  const verbs = new Set(porter.verbs.map(({ verb }) => verb.replace(/^installations /, 'installation ')));
  expect(Object.keys(refusedVerbs).filter((verb) => !verbs.has(verb))).toEqual([]);
  const flags = new Set(rows.map(({ verb, flag }) => `${resolved(verb).entry?.path} --${flag}`));
  const extra = Object.entries(refusedFlags).flatMap(([path, list]) =>
    list.map(({ name }) => `${path} --${name}`),
  );
  expect(extra.filter((line) => !flags.has(line))).toEqual([]);
  expect(globalFlags.some((flag) => refusedGlobals.some((refused) => refused.name === flag.name))).toBe(
    false,
  );
});

/** Actions are compared by what they would ask for; all other commands by what they print and change. */
async function outcome(path: string, argv: readonly string[]): Promise<unknown> {
  if (argv.includes('--verbosity')) {
    return await shownNotices(argv);
  }
  if (path === 'installation delete') {
    await seedState(join(folder, 'data/skycap/state'));
  }
  if (!['install', 'upgrade', 'invoke', 'uninstall'].includes(path)) {
    const ran = await runLine({ argv, env, cwd: folder });
    expect(ran.exitCode, ran.stderr).not.toBe(1);
    return ran;
  }
  const { entry, rest } = resolveCommand(argv, entries);
  const command = await (entry as (typeof entries)[number]).load();
  const invocation = parseInvocation({ command, words: rest, env });
  const host = fakeHost({ argv, env, cwd: folder });
  const { context } = createContext(invocation, host, quietControls);
  const wish = await readAction(invocation, context);
  const action = command.path === 'invoke' ? invocation.flags.string('action') : command.path;
  const rest2 = invocation.flags.unread().filter((name) => name !== 'action');
  return { action, wish, ignored: rest2, debug: context.debug };
}

/** What is left of a notice at a level. */
async function shownNotices(words: readonly string[]): Promise<string> {
  const command = await (
    entries.find((entry) => entry.path === 'version') as (typeof entries)[number]
  ).load();
  const invocation = parseInvocation({ command, words, env });
  const host = fakeHost({ argv: words });
  createContext(invocation, host, quietControls).emit({ type: 'notice', message: 'hello' } as Event);
  return host.stderr.text;
}

/** By our command and Porter's flag: a line without and a line with it, after the verb. */
function effects(): Readonly<Record<string, Readonly<Record<string, readonly [string, string]>>>> {
  const action = {
    'allow-docker-host-access': ['', '--allow-docker-host-access'],
    debug: ['', '--debug'],
    driver: ['', '--driver docker'],
    file: ['', '--file other.yaml'],
    force: ['', '--force'],
    'force-upgrade': ['', '--force-upgrade'],
    label: ['', '--label a=b'],
    namespace: ['', '--namespace dev'],
    param: ['', '--param place=y'],
    delete: ['', '--delete'],
    'force-delete': ['', '--force-delete'],
    action: ['--action nothing', '--action something'],
  } as const;
  const namespace = ['one', 'one --namespace dev'] as const;
  return {
    '': { verbosity: ['--verbosity info', '--verbosity error'], version: ['', '--version'] },
    install: action,
    upgrade: action,
    invoke: action,
    uninstall: action,
    lint: { file: ['', '--file other.yaml'], output: ['', '--output json'] },
    explain: {
      file: ['', '--file other.yaml'],
      action: ['', '--action nothing'],
      output: ['', '--output json'],
    },
    version: { output: ['', '--output json'], system: ['', '--system'] },
    'installation list': {
      'all-namespaces': ['', '--all-namespaces'],
      'field-selector': ['', '--field-selector status.action=upgrade'],
      label: ['', '--label env=prod'],
      limit: ['', '--limit 1'],
      name: ['', '--name on'],
      namespace: ['', '--namespace dev'],
      output: ['', '--output yaml'],
      skip: ['', '--skip 1'],
    },
    'installation show': { namespace, output: ['one', 'one --output json'] },
    'installation delete': { force: ['one', 'one --force'], namespace },
    'run list': { namespace, output: ['one', 'one --output json'] },
    'run logs': {
      installation: ['', '--installation two'],
      namespace: ['', '--installation one --namespace dev'],
      run: ['', `--run ${runId}`],
    },
    'output list': {
      installation: ['', '--installation two'],
      namespace: ['', '--namespace dev'],
      output: ['', '--output json'],
      run: ['', `--run ${runId}`],
    },
    'output show': {
      installation: ['url', 'url --installation two'],
      namespace: ['url', 'url --namespace dev'],
      run: ['url', `url --run ${runId}`],
    },
  };
}
