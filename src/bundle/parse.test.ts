import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { fc } from '../testkit/property.ts';
import { parseBundle } from './parse-bundle.ts';

const head =
  'name: demo\nversion: v1.2\ninvocationImages:\n  - name: tools\n    image: ghcr.io/acme/tools:1\n';

function parse(source: string) {
  const { bundle, problems } = parseBundle(source, { file: 'porter.yaml' });
  if (bundle === undefined)
    throw new Error(problems.map((one) => `${one.code}:${one.place.line} ${one.message}`).join('\n'));
  return bundle;
}

function step(yaml: string) {
  const found = parse(`${head}install:\n${yaml}`).actions.get('install')?.[0];
  if (found === undefined) throw new Error('no step');
  return found;
}

test('the list form and the map form of invoke are one', () => {
  const inList = step(
    '  - description: d\n    invoke:\n      - name: tools\n      - action:\n          run: echo\n      - dir: chart\n',
  );
  const inMap = step(
    '  - description: d\n    invoke:\n      name: tools\n      action:\n        run: echo\n      dir: chart\n',
  );
  const plain = (value: unknown) =>
    JSON.parse(
      JSON.stringify(value, (key, one: unknown) =>
        key === 'span' ? undefined : one instanceof Map ? [...one] : one,
      ),
    );
  expect(plain(inList)).toEqual(plain(inMap));
  expect(inList.body).toMatchObject({
    kind: 'invoke',
    image: 'tools',
    command: { kind: 'run', script: { text: 'echo' } },
    dir: { text: 'chart' },
  });
});

test('every field of a step arrives', () => {
  const found = step(`  - id: apply
    description: Apply it
    invoke:
      name: tools
      action: {command: [helm, 007, true, "1.20"]}
      env: {LOG: debug, N: 1.10}
      outputs:
        - {name: a, path: out/a}
        - {name: b, jsonPath: $.b, sensitive: false}
        - {name: c, regex: "x(.)"}
        - {name: d, stdout: true}
      suppressOutput: true
      ignoreError: {exitCodes: [3], output: {contains: [x], regex: [y]}}
    when: \${ bundle.parameters.x == 1 }
    needs: []
    timeout: 1h30m
    retry: {attempts: 3, delay: 500ms, factor: 2, onExit: [1, 75]}
    idempotent: true
    always: true
    matrix: {region: [eu, us], n: "\${ bundle.parameters.list }"}
    maxParallel: 2
    failFast: true
    credentials: all
    parameters: [x]
    inputs: [b]
`);
  expect(found).toMatchObject({
    id: 'apply',
    index: 0,
    needs: [],
    timeoutMs: 5_400_000,
    retry: { attempts: 3, delayMs: 500, factor: 2, onExit: [1, 75] },
    idempotent: true,
    always: true,
    failFast: true,
    maxParallel: 2,
    credentials: 'all',
    parameters: ['x'],
    inputs: ['b'],
    when: { text: '${ bundle.parameters.x == 1 }' },
  });
  if (found.body.kind !== 'invoke' || found.body.command.kind !== 'command') throw new Error('wrong kind');
  // As written: Porter makes 7 and 1.2 of them.
  expect(found.body.command.argv.map((word) => word.text)).toEqual(['helm', '007', 'true', '1.20']);
  expect(found.body.env.get('N')?.text).toBe('1.10');
  expect(found.body.outputs.map((output) => output.source)).toEqual([
    { kind: 'path', path: '/cnab/app/out/a' },
    { kind: 'jsonPath', query: '$.b' },
    { kind: 'regex', pattern: 'x(.)' },
    { kind: 'stdout' },
  ]);
  expect(found.body.ignoreError).toEqual({ all: false, exitCodes: [3], contains: ['x'], regex: ['y'] });
  expect([...(found.matrix ?? [])].map(([key, { value }]) => [key, value])).toEqual([
    ['region', ['eu', 'us']],
    ['n', '${ bundle.parameters.list }'],
  ]);
});

test('every field of an invocation image arrives, with its defaults', () => {
  const { invocationImages } = parse(`name: demo
version: 1.0.0
invocationImages:
  - {name: plain, image: x.example/a}
  - {name: built, build: ./images/site}
  - {name: mapped, build: {context: ., dockerfile: D, target: t, args: {A: 1}, secrets: [s]}}
  - {name: baked, bake: ./images.yaml#ansible, platform: linux/arm64, home: shared, workspace: ro, network: none, docker: true, user: 1000, resources: {cpus: 500m, memory: 512Mi, pids: 200}, volumes: [{name: cache, path: /root/.cache, scope: installation}]}
install: [{invoke: {name: plain}}, {invoke: {name: built}}, {invoke: {name: mapped}}, {invoke: {name: baked}}]
`);
  expect(invocationImages[0]).toMatchObject({
    source: { kind: 'registry', image: 'x.example/a' },
    home: 'own',
    workspace: 'rw',
    network: 'default',
    docker: false,
    resources: {},
    volumes: [],
  });
  expect(invocationImages[1]?.source).toEqual({
    kind: 'build',
    context: './images/site',
    args: {},
    secrets: [],
  });
  expect(invocationImages[2]?.source).toEqual({
    kind: 'build',
    context: '.',
    dockerfile: 'D',
    target: 't',
    args: { A: '1' },
    secrets: ['s'],
  });
  expect(invocationImages[3]).toMatchObject({
    source: { kind: 'bake', file: './images.yaml', name: 'ansible' },
    home: 'shared',
    workspace: 'ro',
    network: 'none',
    docker: true,
    user: '1000',
    resources: { cpus: 0.5, memoryBytes: 536_870_912, pids: 200 },
    volumes: [{ name: 'cache', path: '/root/.cache', scope: 'installation' }],
  });
});

test('no schemaVersion with invocation images is 1.0.1, and versions are normalised', () => {
  expect(parse(`${head}install: [{invoke: {name: tools}}]`)).toMatchObject({
    schemaVersion: '1.0.1',
    delimiters: 'dollar',
    version: '1.2.0',
  });
  expect(parse(`schemaVersion: 1.0.0-alpha.1\n${head}install: [{invoke: {name: tools}}]`).delimiters).toBe(
    'mustache',
  );
});

test('state: absent, empty and listed are three things', () => {
  const steps = 'install: [{invoke: {name: tools}}]\n';
  expect(parse(`${head}${steps}`).state).toBeUndefined();
  expect(parse(`${head}${steps}state: []\n`).state).toEqual([]);
  expect(parse(`${head}${steps}state: [{path: tf.state}]\n`).state).toEqual([
    { name: 'tf.state', path: '/cnab/app/tf.state' },
  ]);
});

const steps = 'install:\n  - invoke: {name: tools}\n';

/** What is wrong, and the codes with their lines; the head takes five lines. */
const wrong: readonly (readonly [string, readonly string[]])[] = [
  [`${head}${steps}parametrs: [{name: p}]\n`, ['unknown-key:8']],
  [`${head}${steps}parameters: [{name: p, defualt: 1}]\n`, ['unknown-key:8']],
  [`${head}${steps}parameters:\n  - name: p\n  - name: p\n`, ['duplicate-name:10']],
  [`${head}${steps}credentials:\n  - {name: p, env: A}\n  - {name: p, env: B}\n`, ['duplicate-name:10']],
  [`${head}${steps}parameters:\n  - name: ../x\n`, ['bad-value:9']],
  [`${head}${steps}outputs:\n  - name: a b\n`, ['bad-value:9']],
  [`${head}${steps}name: again\n`, ['duplicate-key:8']],
  [`${head}${steps}parameters:\n  - {name: p, type: file}\n`, ['file-without-path:9']],
  [`${head}${steps}credentials:\n  - name: c\n`, ['credential-nowhere:9']],
  [`${head}install:\n  - invoke: {name: tools, action: {run: x, command: [y]}}\n`, ['conflicting-keys:7']],
  [`${head}install:\n  - invoke: {name: tools, action: {command: helm up}}\n`, ['wrong-type:7']],
  [`${head}install:\n  - invoke: {name: tools}\n    timeout: 10\n`, ['bad-value:8']],
  [`${head}install:\n  - invoke: {name: tools}\n    retry: {attempts: 0}\n`, ['bad-value:8']],
  [`${head}install:\n  - invoke: {name: tools}\n    maxParallel: 2\n`, ['conflicting-keys:8']],
  [`${head}install:\n  - invoke: {name: tools, dir: ../x}\n`, ['bad-path:7']],
  ...['../x', '/etc/../x', 'a/..', '"a\\0b"'].flatMap((path): [string, string[]][] => [
    [`${head}parameters:\n  - name: p\n    path: ${path}\n${steps}`, ['bad-path:8']],
    [`${head}credentials:\n  - name: c\n    path: ${path}\n${steps}`, ['bad-path:8']],
    [`${head}outputs:\n  - {name: o, type: string,\n    path: ${path}}\n${steps}`, ['bad-path:8']],
    [`${head}state:\n  - name: s\n    path: ${path}\n${steps}`, ['bad-path:8']],
  ]),
  [`${head}install:\n  - invoke: {name: tools, outputs: [{name: o}]}\n`, ['output-without-source:7']],
  [
    `${head}install:\n  - invoke: {name: tools, outputs: [{name: o, regex: "x+"}]}\n`,
    ['regex-without-group:7'],
  ],
  [`${head}install:\n  - invok: {name: tools}\n  - invoke: {name: tools}\n`, ['unknown-key:7']],
  [`${head}install:\n  -\n  - invoke: {name: tools}\n`, ['empty-step:7']],
  [`${head}install:\n  - exec: {command: x}\n  - invoke: {name: tools}\n`, ['mixin-undeclared:7']],
  [`${head}install:\n  - invoke:\n      - name: tools\n      - name: other\n`, ['duplicate-key:9']],
  [`${head}    volumes: [{name: v, path: /usr/x}]\n${steps}`, ['volume-path:6']],
  [`${head}    volumes: [{name: v, path: /cnab/app/../../etc}]\n${steps}`, ['volume-path:6']],
  [`${head}    resources: {memory: lots}\n${steps}`, ['bad-value:6']],
  [`${head}    build: .\n${steps}`, ['conflicting-keys:4']],
  [`${head}    network: nobody\n${steps}`, ['bad-value:6']],
  [`${head}  - {name: tools, image: b}\n${steps}`, ['duplicate-name:6']],
  [`${head}  - {name: Tools, image: "https://b"}\n${steps}`, ['bad-value:6', 'bad-value:6']],
  [`schemaVersion: 1.1.0\n${head}${steps}`, ['schema-version:1']],
  [`schemaVersion: 7\n${head}${steps}`, ['schema-version:1']],
  ['version: v2\nname: web\nservices: []\n', ['other-platform:1']],
  ['version: v1\napps: {}\n', ['other-platform:1']],
  ['name: old\nversion: 0.1.0\nmixins: [exec]\ninstall: [{exec: {command: x}}]\n', ['legacy-bundle:1']],
  ['hello: world\n', ['not-a-bundle:1']],
  ['', ['not-a-bundle:1']],
  ['name: x\nversion: 1.0.0\ninstall: [${ bundle.name }]\n', ['yaml-expression-quotes:3']],
];

test.each(wrong)('%j is refused in its place', (source, expected) => {
  const { bundle, problems } = parseBundle(source, { file: 'porter.yaml' });
  expect(bundle).toBeUndefined();
  expect(
    problems.filter((one) => one.severity === 'error').map((one) => `${one.code}:${one.place.line}`),
  ).toEqual(expected);
  for (const problem of problems) expect(problem.message).not.toBe('');
});

test('all problems come in one go', () => {
  const source = `${head}parameters: [{name: p, typ: string}]\ncredentials: [{name: c}]\ninstall:\n  - invoke: {name: tools, actoin: {}}\n  - {}\n`;
  expect(
    parseBundle(source, { file: 'f' })
      .problems.map((one) => one.code)
      .sort(),
  ).toEqual(['credential-nowhere', 'step-without-body', 'unknown-key', 'unknown-key']);
});

test('a porter file keeps Porter’s leniency', () => {
  const porter =
    'schemaVersion: 1.0.0\nname: x\nversion: 0.1.0\nmixins: [exec]\nparameters: [{name: p, wholly: 1}, {name: p}]\ninstall: [{exec: {command: x}}]\nuninstall: [{exec: {command: x}}]\n';
  const { bundle, problems } = parseBundle(porter, { file: 'f' });
  expect(bundle?.parameters).toHaveLength(1);
  expect(problems.map((one) => `${one.severity} ${one.code}`).sort()).toEqual([
    'warning duplicate-name',
    'warning unknown-key',
  ]);
});

const own = readFileSync(new URL(import.meta.url), 'utf8');

test('no text makes the parser throw', () => {
  const words = own.match(/[A-Za-z.]+:?|[[\]{}]|\d+/g) ?? [];
  const piece = fc.oneof(
    fc.constantFrom(...new Set(words)),
    fc.constantFrom('\n', '\n  ', '\n    - ', ': ', '- ', ', ', '"', '&a ', '*a', '<<: *a'),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.boolean(), (pieces, withHead) => {
      parseBundle(`${withHead ? head : ''}${pieces.join('')}`, { file: 'f' });
    }),
    { numRuns: 3000 },
  );
});
