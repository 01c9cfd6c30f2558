import { describe, expect, it } from 'vitest';
import { loadBundle } from '../bundle/index.ts';
import type { PinnedImage } from '../oci/index.ts';
import { digestOf, parsePlatform } from '../oci/names/index.ts';
import {
  type BoundStep,
  bind,
  checkGivenValues,
  type Known,
  type KnownValue,
  makePlan,
  type Plan,
  type PlanImage,
} from './index.ts';

const digest = digestOf('x');
const image: PinnedImage = {
  reference: 'ghcr.io/acme/tools:1',
  repository: 'ghcr.io/acme/tools',
  digest,
  manifestDigest: digest,
  configDigest: digest,
  platform: parsePlatform('linux/amd64'),
  config: {
    entrypoint: ['/entry'],
    cmd: ['default'],
    env: ['LANG=C', 'HOME=/root', 'CNAB_ACTION=none'],
    user: '1000',
    workingDir: '/',
    labels: {},
  },
  layers: [],
  size: 1,
};

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const known = (json: string | number | readonly string[], sensitive = false): KnownValue => ({
  json,
  bytes: utf8(typeof json === 'string' ? json : JSON.stringify(json)),
  sensitive,
});

async function plan(
  text: string,
  parameters: Record<string, KnownValue> = {},
  isGranted: Parameters<typeof makePlan>[0]['isGranted'] = () => false,
): Promise<Plan> {
  const action = 'install';
  const { parseBundle } = await loadBundle();
  const parsed = parseBundle(
    `name: shop\nversion: 1.0.0\ninvocationImages:\n  - {name: tools, image: "ghcr.io/acme/tools:1"}\n${text}`,
    { file: 'porter.yaml' },
  );
  if (parsed.bundle === undefined) throw new Error(JSON.stringify(parsed.problems));
  return makePlan({
    bundle: parsed.bundle,
    action,
    installation: { namespace: 'dev', name: 'mine', id: 'I' },
    images: new Map([['tools', image]]),
    referencedDigests: {},
    interfaceCommands: new Map(),
    parameters: new Map(Object.entries(parameters)),
    isGranted,
    digest,
  });
}

function bound(made: Plan, more: Partial<Known> = {}, step = 0): Extract<BoundStep, { kind: 'run' }> {
  const result = bind(made, made.steps[step] as Plan['steps'][number], {
    runId: 'R',
    revision: 'V',
    installationId: 'I',
    attempt: 1,
    containerId: 'c',
    graceMs: 1,
    parameters: new Map(),
    credentials: new Map(),
    outputs: new Map(),
    carriedFiles: [],
    manifest: 'name: shop',
    cnabBundle: {},
    ...more,
  });
  if (result.kind !== 'run') throw new Error(result.reason);
  return result;
}

function step(action: string, more = ''): string {
  return `install:\n  - description: d\n    invoke:\n      name: tools\n      action: ${action}\n${more}`;
}

describe('makePlan and bind', () => {
  it.each([
    ['nothing: entrypoint and cmd', '{}', ['/entry', 'default']],
    ['args: behind the entrypoint', '{args: [a, b]}', ['/entry', 'a', 'b']],
    ['command: in place of it', '{command: [x, y]}', ['x', 'y']],
  ])('takes %s', async (_name, action, argv) => {
    expect(bound(await plan(step(action))).run.argv).toEqual(argv);
  });

  it('keeps a script free of values', async () => {
    const made = await plan(
      `parameters:\n  - {name: p, type: string}\n${step("{run: 'echo ${ bundle.parameters.p }'}")}`,
      { p: known('$(id) `id` "\'') },
    );
    const { run } = bound(made, { parameters: new Map([['p', known('$(id) `id` "\'')]]) });
    const script = Buffer.from(
      run.files.find((file) => file.path === '/cnab/step')?.content ?? [],
    ).toString();

    expect(run.argv).toEqual(['sh', '-e', '/cnab/step']);
    expect(script.split('\n')[0]).toMatch(/^\w+='\$\(id\) `id` "'\\'''$/);
    expect(script.split('\n')[1]).not.toContain('id');
  });

  it('puts the prologue behind a #! line and starts the file by itself', async () => {
    const made = await plan(
      `parameters:\n  - {name: p, type: string}\n${step('{run: "#!/bin/bash\\necho ${ bundle.parameters.p }\\n"}')}`,
      { p: known('v') },
    );
    const { run } = bound(made, { parameters: new Map([['p', known('v')]]) });
    const file = run.files.find((other) => other.path === '/cnab/step');

    expect(run.argv).toEqual(['/cnab/step']);
    expect(file?.mode).toBe(0o555);
    expect(Buffer.from(file?.content ?? []).toString()).toMatch(/^#!\/bin\/bash\n\w+='v'\necho /);
  });

  it('makes one argument of each item of an array, and keeps types', async () => {
    const made = await plan(
      `parameters:\n  - {name: list, type: array}\n  - {name: n, type: string}\n${step('{command: [x, "${ bundle.parameters.list }", "${ bundle.parameters.n }"]}')}`,
      { list: known(['a b', '']), n: known('007') },
    );

    expect(bound(made).run.argv).toEqual(['x', 'a b', '', '007']);
  });

  it('never writes a sensitive value into the plan', async () => {
    const made = await plan(
      `parameters:\n  - {name: p, type: string, sensitive: true}\n${step('{command: [x, "${ bundle.parameters.p }"]}')}`,
      { p: known('hunter2', true) },
    );

    expect(JSON.stringify(made)).not.toContain('hunter2');
    expect(made.steps[0]?.sees.parameters).toEqual(['p']);
    expect(bound(made, { parameters: new Map([['p', known('hunter2', true)]]) }).run).toMatchObject({
      argv: ['x', 'hunter2'],
      sensitive: true,
    });
  });

  it('does not read a known value as an expression again', async () => {
    const made = await plan(
      `parameters:\n  - {name: p, type: string}\n${step('{command: [x, "${ bundle.parameters.p }"]}')}`,
      { p: known('${ bundle.name }') },
    );

    expect(bound(made).run.argv).toEqual(['x', '${ bundle.name }']);
  });

  it('skips by `when`, and refuses one that is no condition', async () => {
    const made = await plan(
      step('{}', '    when: ${ bundle.parameters.env == "prod" }\n').replace(
        'install:',
        'parameters:\n  - {name: env, type: string}\ninstall:',
      ),
      { env: known('dev') },
    );
    expect(() => bound(made, { parameters: new Map([['env', known('dev')]]) })).toThrow('when');
  });

  it('works in the folder that `dir` names', async () => {
    expect(bound(await plan(step('{}', '      dir: chart\n'))).run.workingDir).toBe('/cnab/app/chart');
    expect(bound(await plan(step('{}'))).run.workingDir).toBe('/cnab/app');
  });

  it.each(['a/../../etc', '/srv', '..'])(
    'refuses a value of `dir` that leads out of the workspace: %s',
    async (dir) => {
      const made = await plan(
        `parameters:\n  - {name: p, type: string}\n${step('{}', '      dir: ${ bundle.parameters.p }\n')}`,
        { p: known(dir) },
      );

      expect(() => bound(made)).toThrow(expect.objectContaining({ code: 'DIRECTORY_OUTSIDE' }));
    },
  );

  it('sets the variables of CNAB and Porter', async () => {
    expect(bound(await plan(step('{}'))).run.env).toMatchObject({
      LANG: 'C',
      CNAB_ACTION: 'install',
      CNAB_INSTALLATION_NAME: 'dev/mine',
      CNAB_BUNDLE_NAME: 'shop',
      PORTER_INSTALLATION_NAMESPACE: 'dev',
      PORTER_INSTALLATION_NAME: 'mine',
      CNAB_REVISION: 'V',
    });
  });

  it.each(['own', 'shared'] as const)(
    'knows each variable in expressions as it is: home %s',
    async (home) => {
      const at = (made: Plan) =>
        bound({ ...made, images: { tools: { ...(made.images.tools as PlanImage), home } } }).run;
      const names = Object.keys(at(await plan(step('{}'))).env);
      const argv = names.map((name) => `'\${ env.${name} }'`).join(', ');
      const { env, argv: read } = at(await plan(step(`{command: [x, ${argv}]}`)));
      expect(read).toEqual(['x', ...names.map((name) => env[name])]);
      expect(env).toMatchObject({ HOME: home === 'own' ? '/root' : '/home/nonroot', CNAB_ACTION: 'install' });
    },
  );

  it('refuses an environment string beyond 128 KiB before anything starts', async () => {
    const made = await plan(`parameters:\n  - {name: p, type: string}\n${step('{}')}`, {
      p: known('x'.repeat(131_072)),
    });

    expect(() => bound(made, { parameters: new Map([['p', known('x'.repeat(131_072))]]) })).toThrow(
      expect.objectContaining({ code: 'EXPRESSION_TOO_LONG' }),
    );
  });

  it('gives the Docker socket to an image that a consent names, and to one that asks and was allowed', async () => {
    const named = await plan(step('{}'), {}, (consent) => consent.kind === 'docker' && !consent.asked);
    expect(named.images.tools?.docker).toBe(true);
    expect((await plan(step('{}'), {}, ({ asked }) => asked)).images.tools?.docker).toBe(false);
    expect((await plan(step('{}'))).consents).toEqual([]);
  });

  it('plans a thousand steps in a moment, each waiting for the one before', async () => {
    const steps = Array.from(
      { length: 1000 },
      (_, i) => `  - description: s${i}\n    id: s${i}\n    invoke: {name: tools, action: {command: [x]}}\n`,
    );
    const made = await plan(`install:\n${steps.join('')}`);

    expect(made.steps).toHaveLength(1000);
    expect(made.steps[999]?.needs).toEqual(['s998']);
  });
});

describe('checkGivenValues', () => {
  const long = known('x'.repeat(131_072), true);
  const parameter = 'parameters:\n  - {name: p, type: string, sensitive: true}\n';
  const second = 'install:\n  - {invoke: {name: tools}}\n';

  it.each([
    ['an argument', '{command: [x, "${ bundle.parameters.p }"]}', long, 'EXPRESSION_TOO_LONG'],
    ['a variable', '{command: [x, "${ env.P }"]}', known('a\0b', true), 'EXPRESSION_BYTES'],
    ['a script', "{run: 'x ${ bundle.parameters.p }'}", known('a\0b', true), 'EXPRESSION_BYTES'],
  ])('refuses what a later step cannot be handed: %s', async (_name, action, value, code) => {
    const made = await plan(`${parameter}${second}${step(action).replace('install:\n', '')}`, { p: value });
    const given = { parameters: new Map([['p', value]]), credentials: new Map() };

    expect(() => checkGivenValues(made, given)).toThrow(expect.objectContaining({ code }));
  });

  it('leaves what waits for an output, or for a condition, to the step’s turn', async () => {
    const made = await plan(
      `${parameter}outputs:\n  - {name: o, type: string}\n${step('{command: [x, "${ bundle.outputs.o }"]}')}`,
    );
    const conditional = await plan(
      `${parameter}outputs:\n  - {name: o, type: string}\n${step('{command: [x, "${ bundle.parameters.p }"]}', '    when: ${ bundle.outputs.o == "a" }\n')}`,
      { p: long },
    );
    const given = { parameters: new Map([['p', long]]), credentials: new Map() };

    expect(() => checkGivenValues(made, { parameters: new Map(), credentials: new Map() })).not.toThrow();
    expect(() => checkGivenValues(conditional, given)).not.toThrow();
  });
});
