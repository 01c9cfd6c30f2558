import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

interface Found {
  readonly severity: string;
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly line: number;
  readonly column: number;
  readonly excerpt?: string;
}

describe.each(enginesToTest('oci-runtime'))('the file, on %s', (engine) => {
  let world: World;
  let tools: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('acme/tools:1');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** A bundle folder whose file has an invocation image `tools` and this after it. */
  function withTools(rest: string, head = ''): string {
    return world.bundle({
      'porter.yaml': `${head}name: filed\nversion: 1.0.0\ninvocationImages:\n  - {name: tools, image: "${tools}"}\n${rest}`,
    });
  }

  async function lint(cwd: string): Promise<{ readonly ran: Ran; readonly problems: readonly Found[] }> {
    const ran = await world.skycap(['lint', '-o', 'json'], { cwd });
    return { ran, problems: ran.json<{ problems: Found[] }>().problems };
  }

  const places = (problems: readonly Found[]): readonly string[] =>
    problems.filter((one) => one.severity === 'error').map((one) => `${one.line}:${one.column} ${one.code}`);

  it('B1 B2 reads a file without schemaVersion, mixins, registry and reference, as 1.0.1', async () => {
    // What 1.0.1 means and 1.0.0-alpha.1 does not: `${ }` is an expression and `{{ }}` is text.
    const steps =
      'install:\n  - invoke: {name: tools, action: {command: [echo, "<${ bundle.name }> {{ bundle.name }}"]}}\n';
    const cwd = withTools(steps);
    expect((await lint(cwd)).problems).toEqual([]);
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    const ran = expectCode(await world.skycap(['install'], { cwd }), 0);

    expect(ran.stderr).toContain('<filed> {{ bundle.name }}');
    const older = withTools(steps, 'schemaVersion: 1.0.0-alpha.1\n');
    expectCode(await world.skycap(['lock'], { cwd: older }), 0);
    const olderRan = expectCode(await world.skycap(['install', 'older'], { cwd: older }), 0);
    expect(olderRan.stderr).toContain('<${ bundle.name }> filed');
  });

  it('B2 wants mixins where mixin steps are', async () => {
    const { ran, problems } = await lint(withTools('install:\n  - exec: {description: x, command: ls}\n'));

    expect(ran.code).toBe(10);
    expect(places(problems).some((place) => place.startsWith('6:'))).toBe(true);
    expect(problems.map((one) => `${one.message} ${one.hint}`).join('\n')).toMatch(/mixin/);
  });

  it('B3 reports all problems in one go, with line, column, excerpt and the nearest known key', async () => {
    const cwd = withTools(
      'paramters: []\ninstall:\n  - invoke: {name: tools, acton: {command: [ls]}}\n  - invoke: {name: tolls, action: {comand: [ls]}}\n',
    );

    const { ran, problems } = await lint(cwd);
    const text = await world.skycap(['lint'], { cwd });

    expect(ran.code).toBe(10);
    expect(places(problems)).toEqual([
      '5:1 unknown-key',
      '7:27 unknown-key',
      '8:20 unknown-name',
      '8:36 unknown-key',
    ]);
    const hints = problems.filter((one) => one.severity === 'error').map((one) => one.hint);
    expect(hints).toEqual(
      ['parameters', 'action', 'tools', 'command'].map((name) => `did you mean \`${name}\`?`),
    );
    expect(text.code).toBe(10);
    expect(text.stdout).toMatch(
      /porter\.yaml:7:27: error: .*\n(?:.*\n)?.*invoke: \{name: tools, acton:.*\n *\|? *\^/,
    );
  });

  it('B4 refuses a key that stands twice, and names that stand twice', async () => {
    const twice = withTools('install:\n  - invoke: {name: tools}\n    invoke: {name: tools}\n');
    expect(places((await lint(twice)).problems)).toContain('7:5 duplicate-key');
    const names = `parameters:
  - {name: p, type: string, default: a}
  - {name: p, type: string, default: b}
credentials:
  - {name: c, env: C}
  - {name: c, env: D}
outputs:
  - {name: o, type: string, default: a}
  - {name: o, type: string, default: b}
install:
  - {id: s, credentials: [c], invoke: {name: tools}}
  - {id: s, credentials: [c], invoke: {name: tools}}
`;
    const both = withTools(names);
    const file = join(both, 'porter.yaml');
    writeFileSync(file, readFileSync(file, 'utf8').replace(/( {2}- \{name: tools.*\n)/, '$1$1'));

    const { ran, problems } = await lint(both);

    expect(ran.code).toBe(10);
    const lines = new Set(
      places(problems)
        .filter((place) => / duplicate-/.test(place))
        .map((place) => place.split(':')[0]),
    );
    expect([...lines]).toEqual(['5', '8', '11', '14', '17']);
    expectCode(await world.skycap(['install'], { cwd: both }), 10);
  });

  it('B5 finds names that nothing declares at line and column', async () => {
    const cwd = withTools(`install:
  - invoke: {name: nowhere}
  - invoke: {name: tools, action: {command: [echo, "\${ bundle.images.web.digest }"]}}
  - invoke: {name: tools, action: {command: [echo, "a \${ bundle.parameters.region }"]}}
  - {needs: [apply], invoke: {name: tools}}
`);

    const { ran, problems } = await lint(cwd);

    expect(ran.code).toBe(10);
    expect(places(problems)).toEqual([
      '6:20 unknown-name',
      '7:70 expression-name',
      '8:76 expression-name',
      '9:14 unknown-step',
    ]);
    expectCode(await world.skycap(['install', 'undeclared'], { cwd }), 10);
  });

  it('B6 uninstalls a bundle without uninstall steps: runs nothing, records it and warns', async () => {
    const cwd = withTools('install:\n  - invoke: {name: tools, action: {command: [echo, up]}}\n');
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(await world.skycap(['install', 'bare'], { cwd }), 0);

    const ran = expectCode(await world.skycap(['uninstall', 'bare', '--progress', 'json'], { cwd }), 0);

    expect(ran.events.some((event) => String(event.type).startsWith('step.'))).toBe(false);
    expect(ran.events).toContainEqual(
      expect.objectContaining({ type: 'warning', message: expect.stringMatching(/nothing to run/) }),
    );
    const runs = expectCode(await world.skycap(['run', 'list', 'bare', '-o', 'json'], { cwd }), 0);
    expect(runs.stdout).toMatch(/"uninstall"/);
    const shown = await world.skycap(['installation', 'show', 'bare', '-o', 'json']);
    expect(shown.json()).toMatchObject({ status: { action: 'uninstall', resultStatus: 'succeeded' } });
  });

  it('B7 notes mixin steps, and refuses an action that has some before anything starts', async () => {
    const cwd = withTools(`mixins: [exec]
install:
  - invoke: {name: tools, action: {command: [echo, started]}}
  - exec: {description: mixed, command: ls}
customActions:
  check: {stateless: true, modifies: false}
check:
  - invoke: {name: tools, action: {command: [echo, fine]}}
`);

    const { ran, problems } = await lint(cwd);
    expectCode(ran, 0);
    expect(problems).toContainEqual(expect.objectContaining({ severity: 'note', line: 8 }));
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    const refused = await world.skycap(['install', 'mixed', '--progress', 'json'], { cwd });

    expect(refused.code).toBeGreaterThanOrEqual(10);
    expect(refused.code).toBeLessThan(20);
    expect(refused.stderr).toMatch(/mixin/);
    expect(refused.events.some((event) => String(event.type).startsWith('step.'))).toBe(false);
    expect((await world.skycap(['installation', 'show', 'mixed'])).code).not.toBe(0);
    expectCode(await world.skycap(['invoke', 'mixed', '--action', 'check'], { cwd }), 0);
  });
});
