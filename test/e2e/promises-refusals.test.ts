import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REFUSALS, type Refusal } from '../../src/document/expression/shell/refusals.fixture.ts';
import { enginesToTest } from '../support/engines.ts';
import { hostPrograms, pythonFiles, shellImage } from '../support/shell-images.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

/** All that shells and the programs that evaluate text could trip over; then what not every program passes on. */
const TEXTS = {
  first: `it's "q" $(touch canary) \`touch canary\`;touch canary; a  * &/|.[x]^ ';touch canary;' ä€`,
  second: `-n\n'\\n \\ $HOME "\n\${HOME:-$(touch canary)}#{\`touch canary\`}`,
};
const GIVEN = { number: '12', name: 'abc', file: 'file', command: 'cmd', redirect: 'made' };

/** Command lines that hand a value to a program as code; what `--fix` mends of them. */
const LINES: readonly { readonly image: string; readonly line: string }[] = [
  { image: 'shells', line: 'command: [sh, -c, "printf %s ${ bundle.x } > out"]' },
  { image: 'shells', line: 'command: [bash, -ec, "printf %s \\"${ bundle.x }\\" > out"]' },
  { image: 'shells', line: `command: [perl, -e, 'open(F, ">", "out"); print F "\${ bundle.x }"']` },
  { image: 'shells', line: `command: [python3, -c, 'open("out", "w").write("\${ bundle.x }")']` },
  { image: 'entered', line: 'args: ["printf %s ${ bundle.x } > out"]' },
];

interface Case {
  readonly name: string;
  readonly action: string;
  readonly image: string;
  readonly kind: NonNullable<Refusal['kind']> | 'x';
  readonly expected: (value: string) => string;
  /** Only with the first text. */
  readonly once: boolean;
  readonly run: boolean;
}

const cases: readonly Case[] = [
  ...REFUSALS.map((one): Case => {
    // Steps have no standard input; `read` wants a line.
    const script = one.name === 'read' ? `exec < line\n${one.script}` : one.script;
    const text = script.replace(/\n$/, '').replaceAll('\n', '\n            ');
    return {
      name: one.name,
      action: `shell: ${one.shell ?? 'sh'}\n          run: |\n            ${text}`,
      image: 'shells',
      kind: one.kind ?? 'x',
      expected: one.expected ?? ((value) => value),
      once: one.kind !== undefined || one.not !== undefined,
      run: one.run !== false,
    };
  }),
  ...LINES.map(
    ({ line, image }): Case => ({
      name: line,
      action: line,
      image,
      kind: 'x',
      expected: (value) => value,
      once: false,
      run: true,
    }),
  ),
];

describe.each(enginesToTest('oci-runtime'))('refused places, on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const files = {
      ...hostPrograms('/usr/bin/perl', '/usr/bin/nohup'),
      ...pythonFiles(),
      'bin/cmd': { content: '#!/bin/sh\nprintf ran > out\n', mode: 0o755 },
      // Stand-ins that do what the real ones do with their arguments: one text for another shell.
      'bin/ssh': {
        content:
          '#!/bin/sh\nshift\n[ $# -gt 0 ] || exec env -i PATH="$PATH" sh\nexec env -i PATH="$PATH" sh -c "$*"\n',
        mode: 0o755,
      },
      'bin/su': {
        content: '#!/bin/sh\n[ "$1" = -c ] && exec env -i PATH="$PATH" sh -c "$2"\nexec sh\n',
        mode: 0o755,
      },
    };
    const shells = await shellImage(world, 'dash', files);
    const entered = await world.image('shells/entered:1', {
      busybox: true,
      config: { entrypoint: ['/bin/sh', '-c'] },
    });
    // Locked with steps that lint lets through: what an image's entrypoint evaluates, lint knows from the lock.
    const images = { shells, entered };
    cwd = world.bundle({ 'porter.yaml': manifest(images, []), ...workFiles() });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    writeFileSync(join(cwd, 'porter.yaml'), manifest(images, cases));
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it('B54 are refused one by one, are mended by --fix, and give the value then', async () => {
    const file = join(cwd, 'porter.yaml');
    const source = readFileSync(file, 'utf8');
    const linted = await world.skycap(['lint', '-o', 'json'], { cwd });
    expect(linted.code).toBe(10);
    const { problems } = linted.json<{ problems: { code: string; severity: string; line: number }[] }>();
    const refused = new Set(
      problems
        .filter((problem) => problem.code === 'expression-place' && problem.severity === 'error')
        .map((problem) => stepAt(source, problem.line)),
    );
    expect(cases.filter((_, at) => !refused.has(at)).map((one) => one.name)).toEqual([]);
    expect(refused.size).toBe(cases.length);

    const fixed = await world.skycap(['lint', '--fix', '-o', 'json'], { cwd });
    expect(fixed.json<{ problems: unknown[] }>().problems).toEqual([]);
    expectCode(fixed, 0);
    const mended = readFileSync(file, 'utf8');
    expectCode(await world.skycap(['lint', '--fix'], { cwd }), 0);
    expect(readFileSync(file, 'utf8')).toBe(mended);

    for (const [which, text] of Object.entries(TEXTS)) {
      const first = which === 'first';
      const given = ['--param', `x=${text}`, '--param', `first=${first}`];
      expectCode(await world.skycap(['install', which, ...given], { cwd }), 0);
      const listed = await world.skycap(['output', 'list', which, '-o', 'json']);
      const arrived = new Map(
        listed.json<{ name: string; value: unknown }[]>().map((one) => [one.name, one.value]),
      );
      let count = 0;
      for (const [at, one] of cases.entries()) {
        if (!one.run || (one.once && !first)) continue;
        const value = one.kind === 'x' ? text : GIVEN[one.kind];
        expect({ name: one.name, out: arrived.get(`out${at}`) }).toEqual({
          name: one.name,
          out: one.expected(value),
        });
        count++;
      }
      expect(count).toBe(cases.filter((one) => one.run && (first || !one.once)).length);
      expect(arrived.get('canaries')).toBe('');
      console.info(`${count} mended scripts gave the ${which} value`);
    }
  });
});

/** Which case the line belongs to. */
function stepAt(source: string, line: number): number {
  const before = source.split('\n').slice(0, line).reverse();
  return Number(
    before.map((text) => /- description: case (\d+)/.exec(text)?.[1]).find((at) => at !== undefined),
  );
}

function workFiles(): Record<string, string> {
  const files: Record<string, string> = {};
  for (const at of cases.keys()) {
    files[`case${at}/file`] = 'printf sourced > out\n';
    files[`case${at}/in`] = 'a\n';
    files[`case${at}/line`] = 'line\n';
  }
  return files;
}

function manifest(
  images: { readonly shells: string; readonly entered: string },
  used: readonly Case[],
): string {
  const step = (one: Case, at: number): string => `  - description: case ${at}
${one.once ? '    when: "${ bundle.parameters.first }"\n' : ''}    invoke:
      - name: ${one.image}
        dir: case${at}
        action:
          ${one.action.replaceAll('bundle.x', `bundle.parameters.${one.kind}`)}
`;
  const steps = (run: boolean): string =>
    used.map((one, at) => (one.run === run ? step(one, at) : '')).join('');
  const outputs = [...used.entries()].filter(([, one]) => one.run);
  return `name: refused
version: 1.0.0
invocationImages:
  - {name: shells, image: "${images.shells}"}
  - {name: entered, image: "${images.entered}"}
parameters:
  - {name: x, type: string}
  - {name: first, type: boolean, default: true}
${Object.entries(GIVEN)
  .map(([name, value]) => `  - {name: ${name}, type: string, env: GIVEN_${name}, default: "${value}"}\n`)
  .join('')}outputs:
  - {name: canaries, type: string}
${outputs.map(([at]) => `  - {name: out${at}, type: string, path: case${at}/out, default: ""}\n`).join('')}install:
${steps(true)}  - invoke:
      name: shells
      action: {run: "find / /cnab/app -xdev -name 'canary*' > /cnab/app/outputs/canaries"}
elsewhere:
  - invoke: {name: entered, action: {args: [":"]}}
${steps(false)}`;
}
