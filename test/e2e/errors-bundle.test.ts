import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused, type Refusal } from '../support/refused.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

interface Case extends Refusal {
  /** Body of the action's only step. */
  readonly step: string;
  readonly args?: readonly string[];
}

const run = 'invoke: {name: tools, action: {command: [echo, "it runs"]}}';
const echo = (expression: string): string =>
  `invoke: {name: tools, action: {command: [echo, '\${ ${expression} }']}}`;

/** What lint cannot know, since it depends on values. Each is an action of one bundle. */
const cases: readonly Case[] = [
  {
    code: 'EXPRESSION_NO_VALUE',
    exit: 12,
    step: echo('bundle.parameters.unset'),
    says: ['bundle.parameters.unset', 'not given', 'step[0]'],
  },
  {
    code: 'EXPRESSION_LATE',
    exit: 12,
    step: `matrix: {of: '\${ bundle.outputs.made }'}\n    ${run}`,
    says: ['bundle.outputs.made', 'while the run is going on', 'step[0]'],
  },
  {
    code: 'EXPRESSION_TYPE',
    exit: 12,
    step: `when: '\${ !bundle.parameters.any }'\n    ${run}`,
    says: ['`!` wants true or false', 'step[0]'],
  },
  {
    code: 'EXPRESSION_FUNCTION',
    exit: 12,
    step: echo('fromJson(bundle.parameters.text)'),
    args: ['--param=text=no json'],
    says: ['fromJson()', 'step[0]'],
  },
  {
    code: 'EXPRESSION_LIMIT',
    exit: 12,
    step: echo('fromJson(bundle.parameters.text)'),
    args: [`--param=text=${'['.repeat(300)}${']'.repeat(300)}`],
    says: ['fromJson()', 'deeply', 'step[0]'],
  },
  {
    code: 'EXPRESSION_UNKNOWN_NAME',
    exit: 12,
    step: echo('fromJson(bundle.parameters.text).nothing'),
    args: ['--param=text={"some":1}'],
    says: ['nothing', 'does not exist', 'step[0]'],
  },
  {
    code: 'EXPRESSION_DUPLICATE_KEY',
    exit: 12,
    step: `invoke: {name: tools, action: {with: {'\${ bundle.parameters.text }': 1, same: 2}}}`,
    args: ['--param=text=same'],
    says: ['two keys of a map are equal', 'step[0]'],
  },
  {
    code: 'EXPRESSION_BYTES',
    exit: 12,
    step: echo('bundle.parameters.text'),
    args: ['--param=text=@nul'],
    says: ['NUL', 'TEXT', 'step[0]'],
  },
  {
    code: 'EXPRESSION_TOO_LONG',
    exit: 12,
    step: echo('bundle.parameters.text'),
    args: ['--param=text=@long'],
    says: ['128 KiB', 'TEXT', 'step[0]'],
  },
  {
    code: 'CONDITION_INVALID',
    exit: 15,
    step: `when: '\${ bundle.parameters.text }'\n    ${run}`,
    args: ['--param=text=maybe'],
    says: ['`when`', 'step[0]'],
  },
  {
    code: 'DIRECTORY_OUTSIDE',
    exit: 15,
    step: `invoke: {name: tools, dir: '\${ bundle.parameters.text }', action: {command: ['true']}}`,
    args: ['--param=text=../..'],
    says: ['`dir`', '/cnab/app', 'step[0]'],
  },
  {
    code: 'MATRIX_INVALID',
    exit: 15,
    step: `matrix: {of: '\${ fromJson(bundle.parameters.text) }'}\n    ${run}`,
    args: ['--param=text=[1, 1]'],
    says: ['matrix', 'twice', 'step[0]'],
  },
  {
    code: 'STEP_NO_COMMAND',
    exit: 15,
    step: 'invoke: {name: bare}',
    says: ['neither entrypoint nor cmd', 'step[0]'],
  },
  {
    code: 'VALUE_NOT_TEXT',
    exit: 15,
    step: `credentials: [token]\n    ${run}`,
    args: ['--credential=token=path:binary'],
    says: ['credential token', 'UTF-8'],
  },
  {
    code: 'ACTION_NEEDS_MIGRATION',
    exit: 18,
    step: 'exec: {command: echo}',
    says: ['mixin exec', 'porter.yaml'],
  },
];

const actionOf = (code: string): string => code.toLowerCase().replaceAll('_', '-');

describe.each(enginesToTest('oci-runtime'))('wrong bundles, on %s', (engine) => {
  let world: World;
  let cwd: string;
  let tools: string;

  const header = (name: string): string => `name: ${name}
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
`;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('acme/tools:1');
    const bare = await world.image('acme/bare:1', { busybox: true, config: { entrypoint: [], cmd: [] } });
    cwd = world.bundle({
      'porter.yaml': `${header('values')}  - {name: bare, image: "${bare}"}
mixins: [exec]
parameters:
  - {name: unset, type: string, source: {output: made}}
  - {name: text, type: string, default: ""}
  - {name: any, default: text}
credentials:
  - {name: token, env: TOKEN, required: false, applyTo: [value-not-text]}
outputs:
  - {name: made, type: string, default: ""}
customActions:
${cases.map(({ code }) => `  ${actionOf(code)}: {description: x, stateless: true, modifies: false}\n`).join('')}install:
  - id: only
    description: Only
    ${run}
${cases.map(({ code, step }) => `${actionOf(code)}:\n  - description: x\n    ${step}\n`).join('')}`,
      nul: 'a\0b',
      long: 'x'.repeat(200_000),
      binary: Buffer.from([0xff, 0xfe]),
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it.each(cases)('$code refuses a value before anything starts', async ({ code, exit, says, args = [] }) => {
    const command = ['invoke', 'values', '--action', actionOf(code), ...args];
    const ran = await world.skycap(command, { cwd });
    const shown = says.map((text) =>
      typeof text === 'string' ? text.replace('step[0]', `${actionOf(code)}[0]`) : text,
    );
    expectRefused(ran, { code, exit, says: shown });
    expect(ran.stderr).not.toContain('started');
    expectRefused(await world.skycap([...command, '--dry-run'], { cwd }), { code, exit, says: shown });
  });

  it('BUNDLE_NOT_FOUND a folder without a bundle, whatever the command', async () => {
    const folder = world.bundle({});
    for (const args of [
      ['lint'],
      ['lock'],
      ['explain'],
      ['install', '-f', '.'],
      ['upgrade', 'x', '-f', 'porter.yaml'],
    ])
      expectRefused(await world.skycap(args, { cwd: folder }), {
        code: 'BUNDLE_NOT_FOUND',
        exit: 11,
        says: [join(folder, 'porter.yaml')],
      });
  });

  it('BUNDLE_UNREADABLE a device in place of the file', async () => {
    for (const args of [['lint'], ['lock'], ['explain'], ['install', 'x']])
      expectRefused(await world.skycap([...args, '-f', '/dev/null'], { cwd }), {
        code: 'BUNDLE_UNREADABLE',
        exit: 10,
        says: ['/dev/null', 'regular file'],
      });
  });

  it('BUNDLE_INVALID names the first error and its place', async () => {
    const folder = world.bundle({ 'porter.yaml': `${header('wrong')}install:\n  - invoke: {nmae: tools}\n` });
    for (const args of [['install'], ['lock'], ['explain']])
      expectRefused(await world.skycap(args, { cwd: folder }), {
        code: 'BUNDLE_INVALID',
        exit: 10,
        says: ['nmae', 'porter.yaml:6:'],
      });
  });

  it('ACTION_UNKNOWN names the actions that there are', async () => {
    expectCode(await world.skycap(['install'], { cwd }), 0);
    for (const more of [[], ['--dry-run']])
      expectRefused(await world.skycap(['invoke', '--action', 'instal', ...more], { cwd }), {
        code: 'ACTION_UNKNOWN',
        exit: 10,
        says: ['values', 'instal', 'install'],
      });
  });

  it('DEPENDENCIES_LATER a bundle with dependencies', async () => {
    const folder = world.bundle({
      'porter.yaml': `${header('depends')}dependencies:
  requires:
    - {name: db, bundle: {reference: "${tools}"}}
install:
  - ${run}
`,
    });
    for (const more of [[], ['--dry-run']])
      expectRefused(await world.skycap(['install', ...more], { cwd: folder }), {
        code: 'DEPENDENCIES_LATER',
        exit: 17,
        says: ['depends', 'db', join(folder, 'porter.yaml')],
      });
  });

  it('IMAGE_SOURCE_LATER an image that is built', async () => {
    const folder = world.bundle({
      'porter.yaml': `name: builds\nversion: 1.0.0\ninvocationImages:\n  - {name: own, build: {context: image}}\ninstall:\n  - invoke: {name: own, action: {command: [a]}}\n`,
      'image/Dockerfile': 'FROM scratch\n',
    });
    expectCode(await world.skycap(['lock'], { cwd: folder }), 0);
    expectRefused(await world.skycap(['install'], { cwd: folder }), {
      code: 'IMAGE_SOURCE_LATER',
      exit: 17,
      says: ['invocation image own', 'build:'],
    });
  });

  it('BUILD_CONTEXT a Dockerfile that is not there', async () => {
    const folder = world.bundle({
      'porter.yaml': `name: builds\nversion: 1.0.0\ninvocationImages:\n  - {name: own, build: {context: image}}\ninstall:\n  - invoke: {name: own, action: {command: [a]}}\n`,
      'image/other': '',
    });
    expectRefused(await world.skycap(['lock'], { cwd: folder }), {
      code: 'BUILD_CONTEXT',
      exit: 17,
      says: [join(folder, 'image/Dockerfile')],
    });
  });

  it('IMAGE_INTERFACE a label that is no interface', async () => {
    const image = await world.image('acme/label:1', {
      busybox: true,
      config: { labels: { 'dev.skycap.interface': '{"inputs": 7}' } },
    });
    const folder = world.bundle({
      'porter.yaml': `name: label\nversion: 1.0.0\ninvocationImages:\n  - {name: own, image: "${image}"}\ninstall:\n  - invoke: {name: own, action: {command: [a]}}\n`,
    });
    expectRefused(await world.skycap(['lock'], { cwd: folder }), {
      code: 'IMAGE_INTERFACE',
      exit: 14,
      says: [image, 'dev.skycap.interface', 'inputs'],
    });
  });

  describe('the lock', () => {
    const lockFile = (): string => join(cwd, 'porter.lock');
    const invoke = () => world.skycap(['invoke', 'values', '--action', actionOf('VALUE_NOT_TEXT')], { cwd });

    /** With another porter.lock, and then the old one again. */
    async function withLock(change: (text: string) => string, check: () => Promise<void>): Promise<void> {
      const before = readFileSync(lockFile(), 'utf8');
      const changed = change(before);
      expect(changed).not.toBe(before);
      writeFileSync(lockFile(), changed);
      try {
        await check();
      } finally {
        writeFileSync(lockFile(), before);
      }
    }

    it('LOCK_MISSING a bundle that was never locked', async () => {
      const folder = world.bundle({ 'porter.yaml': `${header('unlocked')}install:\n  - ${run}\n` });
      for (const more of [[], ['--dry-run']])
        expectRefused(await world.skycap(['install', ...more], { cwd: folder }), {
          code: 'LOCK_MISSING',
          exit: 16,
          says: ['unlocked', join(folder, 'porter.lock')],
        });
    });

    it('LOCK_INVALID a lock that is no lock', () =>
      withLock(
        () => 'lockVersion: {}\n',
        async () =>
          void expectRefused(await invoke(), { code: 'LOCK_INVALID', exit: 16, says: [lockFile()] }),
      ));

    it('LOCK_ENTRY_MISSING an image that is not pinned', () =>
      withLock(
        (text) => text.replace('"tools": {', '"other": {'),
        async () =>
          void expectRefused(await invoke(), {
            code: 'LOCK_ENTRY_MISSING',
            exit: 16,
            says: [lockFile(), 'tools'],
          }),
      ));

    it('LOCK_STALE another image than the bundle names', () =>
      withLock(
        (text) => text.replaceAll('acme/tools:1', 'acme/tools:2'),
        async () =>
          void expectRefused(await invoke(), {
            code: 'LOCK_STALE',
            exit: 16,
            says: [lockFile(), 'acme/tools:2', tools],
          }),
      ));

    it('LOCK_MISMATCH a lock that says another user', () =>
      withLock(
        (text) => text.replace(/"user": "[^"]*"/g, '"user": "4711"'),
        async () =>
          void expectRefused(await invoke(), {
            code: 'LOCK_MISMATCH',
            exit: 30,
            says: [lockFile(), 'user', '4711'],
          }),
      ));

    it('LOCK_NAME_UNKNOWN a name to move that the bundle does not have', async () => {
      expectRefused(await world.skycap(['lock', '--update', 'tool'], { cwd }), {
        code: 'LOCK_NAME_UNKNOWN',
        exit: 16,
        says: ['tool', 'values', 'did you mean tools'],
      });
    });
  });
});
