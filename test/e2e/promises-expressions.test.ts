import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

/** Texts that a second reading as YAML, or by a shell, would change. */
const texts = {
  zeros: '007',
  exponent: '1e3',
  comment: 'x #y',
  slash: 'C:\\new',
  pair: 'a: b\nevil: yes',
  lines: 'one\ntwo\n\n',
  yes: 'yes',
  empty: '',
  braces: '${ bundle.name } {{ bundle.name }} $(id)',
};
const names = Object.keys(texts);
/** The longest value of the variable `P`: one string is 128 KiB with its name, the `=` and the closing NUL. */
const LONGEST = 131_072 - 'P=\0'.length;

describe.each(enginesToTest('oci-runtime'))('expressions, on %s', (engine) => {
  let world: World;
  let tools: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('acme/tools:1', {
      busybox: true,
      config: {
        entrypoint: ['/bin/cp', '/cnab/context.json', '/cnab/app/outputs/context'],
        env: ['WHERE=the image'],
      },
    });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  function bundle(content: object, image = tools): string {
    const all = {
      name: 'shown',
      version: '1.0.0',
      invocationImages: [{ name: 'tools', image }],
      ...content,
    };
    return world.bundle({ 'porter.yaml': JSON.stringify(all, null, 2) });
  }

  async function outputs(installation: string): Promise<Record<string, unknown>> {
    const listed = await world.skycap(['output', 'list', installation, '-o', 'json']);
    return Object.fromEntries(
      listed.json<{ name: string; value: unknown }[]>().map((one) => [one.name, one.value]),
    );
  }

  const step = (action: object, more: object = {}): object => ({
    invoke: { name: 'tools', action, ...more },
  });
  const strings = (...declared: readonly string[]): object[] =>
    declared.map((name) => ({ name, type: 'string' }));
  const record = (output: string, ...values: readonly string[]): object =>
    step({
      command: ['sh', '-c', `printf '%s\\036' "$@" > /cnab/app/outputs/${output}`, '_', ...values],
    });
  const started = (ran: Ran): readonly unknown[] =>
    ran.events.filter((event) => String(event.type).startsWith('step.'));

  it('B50 B51 keep the type and the text of a value; an array is an argument per item', async () => {
    const of = (name: string): string => `\${ bundle.parameters.${name} }`;
    const variables = Object.fromEntries(names.map((name) => [`V_${name}`, of(name)]));
    const cwd = bundle({
      parameters: [
        ...names.map((name) => ({ name, type: 'string' })),
        { name: 'port', type: 'integer' },
        { name: 'ratio', type: 'number' },
        { name: 'on', type: 'boolean' },
        { name: 'list', type: 'array' },
        { name: 'none', type: 'array' },
        { name: 'tree', type: 'object' },
      ],
      outputs: [...strings('args', 'variables', 'items', 'script'), { name: 'context', type: 'object' }],
      install: [
        record('args', ...names.map(of), of('port'), of('ratio'), of('on'), `<${of('port')}>`),
        step(
          { run: `printf '%s\\036' ${names.map((name) => `"$V_${name}"`).join(' ')} > outputs/variables` },
          { env: variables },
        ),
        step({ run: `printf '%s\\036' ${names.map(of).join(' ')} > outputs/script` }),
        record('items', 'before', of('list'), of('none'), 'after', `<${of('list')}>`),
        step({
          with: {
            ...Object.fromEntries(names.map((name) => [name, of(name)])),
            ...Object.fromEntries(['port', 'ratio', 'on', 'list', 'none', 'tree'].map((n) => [n, of(n)])),
            deep: { list: [of('pair'), of('on')] },
          },
        }),
      ],
    });
    const typed = {
      port: 8080,
      ratio: 1.5,
      on: false,
      list: ['a b', '', '$HOME', '-n', 7],
      none: [],
      tree: { a: { b: 1 } },
    };
    const file = join(world.directory, 'parameters.yaml');
    writeFileSync(file, JSON.stringify({ ...texts, ...typed }));
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    expectCode(await world.skycap(['install', 'types', '--params-file', file], { cwd }), 0);

    const got = await outputs('types');
    const parts = (name: string): readonly string[] => String(got[name]).split('\x1e').slice(0, -1);
    expect(parts('args')).toEqual([...Object.values(texts), '8080', '1.5', 'false', '<8080>']);
    expect(parts('variables')).toEqual(Object.values(texts));
    expect(parts('script')).toEqual(Object.values(texts));
    expect(parts('items')).toEqual([
      'before',
      'a b',
      '',
      '$HOME',
      '-n',
      '7',
      'after',
      '<["a b","","$HOME","-n",7]>',
    ]);
    expect((got.context as { step: { with: unknown } }).step.with).toEqual({
      ...texts,
      ...typed,
      deep: { list: [texts.pair, false] },
    });
  });

  it('B52 leave the shell what is its own, and find a wrong name', async () => {
    const cwd = bundle({
      parameters: [{ name: 'region', type: 'string', default: 'eu' }],
      outputs: strings('script', 'args'),
      install: [
        step({
          run: [
            'set -- a b; VAR=; echo "${HOME} ${#} ${VAR:-x} ${UNSET-y}" > outputs/script',
            'echo \'$${ bundle.parameters.region } ${#arr[@]}\' "${ bundle.parameters.region }" >> outputs/script',
          ].join('\n'),
        }),
        record(
          'args',
          '${HOME} ${#arr[@]} ${VAR:-x} ${ values.name } $${ bundle.name } ${ bundle.name } $$ $${HOME}',
        ),
      ],
    });
    expectCode(await world.skycap(['lint'], { cwd }), 0);
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    expectCode(await world.skycap(['install', 'roots'], { cwd }), 0);

    expect(await outputs('roots')).toMatchObject({
      script: '/root 2 x y\n${ bundle.parameters.region } ${#arr[@]} eu\n',
      args: '${HOME} ${#arr[@]} ${VAR:-x} ${ values.name } ${ bundle.name } shown $$ $${HOME}\x1e',
    });
    const wrong = bundle({
      parameters: [{ name: 'region', type: 'string', default: 'eu' }],
      install: [
        record('args', '${ bundle.parameters.regoin }'),
        step({ run: 'echo "${ bundle.paramters.region } ${ instalation.name }"' }),
      ],
    });
    const linted = await world.skycap(['lint', '-o', 'json'], { cwd: wrong });
    expect(linted.code).toBe(10);
    const { problems } = linted.json<{ problems: { code: string; severity: string; hint?: string }[] }>();
    const errors = problems.filter((one) => one.severity === 'error');
    expect(errors.map((one) => `${one.code} ${one.hint}`)).toEqual([
      expect.stringMatching(/expression-name .*\bregion\b/),
      expect.stringMatching(/expression-name .*\bparameters\b/),
    ]);
  });

  it("B55 take env from the step's own container", async () => {
    const cwd = bundle({
      parameters: [
        { name: 'p', type: 'string', default: 'of p', env: 'FROM_P' },
        { name: 'q', type: 'string', sensitive: true, env: 'FROM_Q', default: 'of q' },
      ],
      outputs: strings('seen'),
      install: [
        {
          ...record('seen', '${ env.WHERE } ${ env.FROM_P } ${ env.FROM_Q } ${ env.CNAB_ACTION }'),
          parameters: ['q'],
        },
      ],
    });
    const host = { WHERE: 'the host', FROM_P: 'the host', CNAB_ACTION: 'the host', ONLY_HOST: 'the host' };
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    expectCode(await world.skycap(['install', 'env'], { cwd, env: host }), 0);

    expect((await outputs('env')).seen).toBe('the image of p of q install\x1e');
    const other = bundle({ outputs: strings('seen'), install: [record('seen', '<${ env.ONLY_HOST }>')] });
    expectCode(await world.skycap(['lock'], { cwd: other }), 0);
    const refused = await world.skycap(['install', 'host', '--progress', 'json'], { cwd: other, env: host });
    expect(refused.code).toBe(12);
    expect(refused.stderr).toContain('ONLY_HOST');
    expect(started(refused)).toEqual([]);
  });

  it('B56 name a referenced image as it was locked, never as a mirror has it', async () => {
    const folder = join(world.directory, 'config/skycap');
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      join(folder, 'config.yaml'),
      `registries:\n  - prefix: images.example.com\n    mirrors: [{location: ${world.registry}/mirrored}]\n`,
    );
    await world.image('mirrored/acme/web:2');
    const cwd = bundle({
      images: { web: { repository: 'images.example.com/acme/web', tag: '2', imageType: 'docker' } },
      outputs: strings('reference'),
      install: [
        record(
          'reference',
          '${ bundle.images.web.repository }:${ bundle.images.web.tag }@${ bundle.images.web.digest }',
        ),
      ],
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    const lock = JSON.parse(readFileSync(join(cwd, 'porter.lock'), 'utf8')) as {
      images: { web: { digest: string } };
    };
    const locked = lock.images.web.digest;
    expect(locked).toMatch(/^sha256:/);
    await world.image('mirrored/acme/web:2', { busybox: true, files: { moved: 'on' } });

    expectCode(await world.skycap(['install', 'mirror'], { cwd }), 0);

    expect((await outputs('mirror')).reference).toBe(`images.example.com/acme/web:2@${locked}\x1e`);
  });

  it('B57 refuse more than 128 KiB before anything starts, and say what to do', async () => {
    const cwd = bundle({
      parameters: [{ name: 'p', type: 'string', sensitive: true }],
      outputs: strings('size'),
      install: [
        step({ command: ['true'] }),
        record('size', '${ length(bundle.parameters.p) }'),
        { ...step({ command: ['true'] }), parameters: ['p'] },
      ],
    });
    const given = (length: number): readonly string[] => {
      const file = join(world.directory, `long-${length}`);
      writeFileSync(file, 'x'.repeat(length));
      return ['--param', `p=@${file}`, '--progress', 'json'];
    };
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    const fits = await world.skycap(['install', 'long', ...given(LONGEST)], { cwd });
    const refused = await world.skycap(['install', 'longer', ...given(LONGEST + 1)], { cwd });

    expectCode(fits, 0);
    expect((await outputs('long')).size).toBe(`${LONGEST}\x1e`);
    expect(refused.code).toBe(12);
    expect(refused.stderr).toMatch(/EXPRESSION_TOO_LONG[\s\S]*128 KiB[\s\S]*`path`/);
    expect(started(refused)).toEqual([]);
    const argument = bundle({
      parameters: [{ name: 'p', type: 'string', sensitive: true }],
      install: [
        step({ command: ['true'] }),
        { ...step({ command: ['true', '<<${ bundle.parameters.p }>>'] }) },
      ],
    });
    expectCode(await world.skycap(['lock'], { cwd: argument }), 0);
    const longArgument = await world.skycap(['install', 'argument', ...given(LONGEST)], { cwd: argument });
    expect(longArgument.code).toBe(12);
    expect(longArgument.stderr).toMatch(/EXPRESSION_TOO_LONG[\s\S]*argument 2/);
    expect(started(longArgument)).toEqual([]);
    const located = bundle({
      parameters: [{ name: 'p', type: 'string', path: '/given/p' }],
      outputs: strings('size'),
      install: [step({ run: 'wc -c < ${ bundle.parameters.p } > outputs/size' })],
    });
    // The redirect is what lint refuses; the file's name moves to `env:`.
    expectCode(await world.skycap(['lint', '--fix'], { cwd: located }), 0);
    expectCode(await world.skycap(['lock'], { cwd: located }), 0);
    expectCode(await world.skycap(['install', 'located', ...given(2 * LONGEST)], { cwd: located }), 0);
    expect(String((await outputs('located')).size).trim()).toBe(String(2 * LONGEST));
  });

  it('B58 stand in {{ }} in files of 1.0.0-alpha.1', async () => {
    const hostile = '\'"$(touch canary)`touch canary`\n{{ bundle.name }} ${ bundle.name }';
    const cwd = bundle({
      schemaVersion: '1.0.0-alpha.1',
      parameters: [
        { name: 'p', type: 'string' },
        { name: 'list', type: 'array', default: ['a b', 'c'] },
      ],
      outputs: strings('args', 'script'),
      install: [
        record(
          'args',
          '{{ bundle.parameters.p }}',
          '<{{bundle.name}}>',
          '{{ bundle.parameters.list }}',
          '${ bundle.name }',
        ),
        step({ run: 'printf "%s %s" "{{ bundle.parameters.p }}" {{ bundle.name }}${HOME} > outputs/script' }),
      ],
    });
    expectCode(await world.skycap(['lint'], { cwd }), 0);
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    expectCode(await world.skycap(['install', 'alpha', '--param', `p=${hostile}`], { cwd }), 0);

    expect(await outputs('alpha')).toMatchObject({
      args: [hostile, '<shown>', 'a b', 'c', '${ bundle.name }', ''].join('\x1e'),
      script: `${hostile} shown/root`,
    });
  });
});
