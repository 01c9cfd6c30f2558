import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PLACES, type Place, REC, VALUES } from '../../src/document/expression/shell/places.fixture.ts';
import { enginesToTest } from '../support/engines.ts';
import { type Sh, shellImage } from '../support/shell-images.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

/** Between the arguments that a script records; NUL would make the outputs binary. */
const SEPARATOR = '\x1e';
const big = `'"\`$(touch canary)\n*-\\ä${'\'\n$(touch canary)"`x'.repeat(53_000)}\n\n`;
/** A script with expressions ends at 256 KiB. */
const PLACES_PER_STEP = 20;
/** A megabyte is no argument and no environment string: places where the shell itself keeps it. */
const bigPlaces = new Set([
  'word',
  'part of a word',
  'double quotes',
  'assignment',
  'assignment, part',
  'for word',
  'case subject, equal',
  'heredoc',
  'substitution',
  'array',
]);

/** `sh` as bash plays it; the two other programs that are called sh somewhere stand under their own names. */
const readers: readonly { readonly shell: string; readonly sh: Sh }[] = [
  { shell: 'sh', sh: 'bash' },
  { shell: 'dash', sh: 'busybox' },
  { shell: 'bash', sh: 'busybox' },
  { shell: 'ash', sh: 'dash' },
];

describe.each(enginesToTest('oci-runtime'))('values in scripts, on %s', (engine) => {
  let world: World;

  beforeAll(async () => {
    world = await makeWorld(engine);
    for (const [at, text] of VALUES.entries()) writeFileSync(join(world.directory, `value-${at}`), text);
    writeFileSync(join(world.directory, 'value-big'), big);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const given = (): string[] => [
    ...VALUES.flatMap((_, at) => ['--param', `v${at}=@${join(world.directory, `value-${at}`)}`]),
    '--param',
    `file=@${join(world.directory, 'value-big')}`,
  ];

  it.each(readers)('B53 arrive as they are in $shell where sh is $sh', async ({ shell, sh }) => {
    const image = await shellImage(world, sh);
    const places = PLACES.filter(([, , , only]) => only === undefined || only.includes(shell));
    const expected = new Map<string, string>();
    const part = (at: number, [reference, output, value]: readonly [string, string, string]): string => {
      const [, script, arrives] = places[at] as Place;
      expected.set(output, arrives(value).replaceAll('\0', SEPARATOR));
      const text = script.replaceAll('parameters.x', reference);
      return `(\nO=/cnab/app/outputs/${output}; export O\n${text}\n:\n)\n`
        .replaceAll('>> out', '>> "$O"')
        .replaceAll('\\000', '\\036');
    };
    const parts = places.map((_, at) =>
      VALUES.map((value, index) => part(at, [`parameters.v${index}`, `p${at}_v${index}`, value])).join(''),
    );
    const bigs = places.flatMap(([name], at) => (bigPlaces.has(name) ? [at] : []));
    const steps = [
      ...Array.from({ length: Math.ceil(parts.length / PLACES_PER_STEP) }, (_, at) =>
        parts.slice(at * PLACES_PER_STEP, (at + 1) * PLACES_PER_STEP).join(''),
      ),
      bigs.map((at) => part(at, ['outputs.big', `p${at}_big`, big])).join(''),
    ].map((text) => REC.replace('>> out', '>> "$O"').replace('\\000', '\\036') + text);
    const cwd = world.bundle({
      'porter.yaml': manifest(image, { shell, steps, outputs: [...expected.keys()] }),
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    const name = `values-${shell}-${sh}`;
    expectCode(await world.skycap(['install', name, ...given()], { cwd }), 0);

    const listed = await world.skycap(['output', 'list', name, '-o', 'json']);
    const arrived = new Map(
      listed.json<{ name: string; value: unknown }[]>().map((one) => [one.name, one.value]),
    );
    let count = 0;
    for (const [output, text] of expected) {
      const [place] = places[Number(/\d+/.exec(output)?.[0])] ?? [];
      if (arrived.get(output) !== text)
        expect({ place, output, value: clipped(arrived.get(output)) }).toEqual({
          place,
          output,
          value: clipped(text),
        });
      count++;
    }
    expect(count).toBe(places.length * VALUES.length + bigs.length);
    expect(arrived.get('files')).toBe('');
    // JSON is text; the bytes themselves once for the largest and for one that ends in line breaks.
    const heredoc = places.findIndex(([place]) => place === 'heredoc');
    for (const output of [`p${heredoc}_big`, `p${heredoc}_v${VALUES.indexOf('a\n\n')}`]) {
      const shown = await world.skycap(['output', 'show', output, '-i', name]);
      expect(shown.stdout === expected.get(output)).toBe(true);
    }
    console.info(
      `${shell} (sh is ${sh}): ${VALUES.length} values × ${places.length} places + ${bigs.length} of 1 MB = ${count}`,
    );
  });

  it.each([
    ['no UTF-8', Buffer.from([0x61, 0xff, 0x62]), 'PARAMETER_INVALID', 2],
    ['a NUL byte', Buffer.from('a\0b'), 'EXPRESSION_BYTES', 12],
  ])('B53 B57 refuses %s before anything starts', async (what, bytes, code, exit) => {
    const image = await shellImage(world, 'busybox');
    const file = join(world.directory, 'refused');
    writeFileSync(file, bytes);
    const cwd = world.bundle({
      'porter.yaml': `name: refused
version: 1.0.0
invocationImages: [{name: shells, image: "${image}"}]
parameters: [{name: p, type: string, sensitive: true}]
install:
  - invoke: {name: shells, action: {command: [echo, started]}}
  - invoke: {name: shells, action: {run: 'echo "\${ bundle.parameters.p }"'}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    const ran = await world.skycap(
      ['install', what.replaceAll(' ', '-'), '--param', `p=@${file}`, '--progress', 'json'],
      { cwd },
    );

    expect(ran.code).toBe(exit);
    expect(ran.stderr).toContain(code);
    expect(ran.events.filter((event) => String(event.type).startsWith('step.'))).toEqual([]);
  });
});

function clipped(value: unknown): unknown {
  return typeof value === 'string' && value.length > 300
    ? `${value.slice(0, 300)}… (${value.length})`
    : value;
}

/** All steps share the workspace; the last one lists what should not be there. */
function manifest(
  image: string,
  { shell, steps, outputs }: { shell: string; steps: readonly string[]; outputs: readonly string[] },
): string {
  const step = (text: string): object => ({ invoke: { name: 'shells', action: { shell, run: text } } });
  return JSON.stringify({
    name: 'values',
    version: '1.0.0',
    invocationImages: [{ name: 'shells', image }],
    parameters: [
      ...VALUES.map((_, at) => ({ name: `v${at}`, type: 'string' })),
      { name: 'file', type: 'string', path: '/values/big' },
    ],
    outputs: ['big', 'files', ...outputs].map((name) => ({ name, type: 'string', sensitive: false })),
    install: [
      step('cat /values/big > /cnab/app/outputs/big'),
      ...steps.map((text) => step(text)),
      step("ls -A / /tmp . | grep -E 'canary|\\*' > /cnab/app/outputs/files || :"),
    ],
  });
}
