import { expect, test } from 'vitest';
import { applyEdits, mergeFixes } from '../../document/index.ts';
import { cpuSeconds } from '../../testkit/cpu.ts';
import { parseBundle } from '../parse-bundle.ts';
import { type FactsOf, lintBundle, lintSource } from './index.ts';
import { checkValue } from './values.ts';

const head = `name: demo
version: 1.0.0
invocationImages:
  - {name: tools, image: x.example/tools:1}
  - {name: other, image: x.example/other:1}
parameters:
  - {name: region, type: string, default: eu}
  - {name: onlyup, type: string, default: a, applyTo: [upgrade]}
custom: {app: {version: 1.2.3}}
images: {web: {repository: x.example/web, tag: "1"}}
`;
const both = 'upgrade:\n  - invoke: {name: tools}\n  - invoke: {name: other}\n';

function lines(source: string): number {
  return source.split('\n').length;
}
/** The line in which `install:`'s first step begins. */
const first = lines(head) + 1;

async function codes(steps: string, rest = ''): Promise<readonly string[]> {
  const found = await lintSource(`${head}install:\n${steps}${both}${rest}`, {
    file: 'porter.yaml',
    exists: (path) => path === 'there.sh',
  });
  return found
    .filter((one) => one.severity !== 'note')
    .map((one) => `${one.code}:${(one.place.line ?? 0) - first}`);
}

test.each([
  // names
  ['  - invoke: {name: tols}\n', ['unknown-name:0']],
  ['  - invoke: {name: tools}\n    credentials: [nope]\n', ['unknown-name:1']],
  ['  - invoke: {name: tools}\n    inputs: [nope]\n', ['unknown-name:1']],
  // order
  ['  - {id: a, invoke: {name: tools}}\n  - {id: a, invoke: {name: tools}}\n', ['duplicate-id:1']],
  [
    '  - {id: a, needs: [b], invoke: {name: tools}}\n  - {id: b, needs: [a], invoke: {name: tools}}\n',
    ['needs-cycle:0'],
  ],
  ['  - {id: a, needs: [b], invoke: {name: tools}}\n  - {id: b, invoke: {name: tools}}\n', ['needs-cycle:0']],
  ['  - {id: a, needs: [a], invoke: {name: tools}}\n', ['needs-cycle:0']],
  [
    '  - {id: apply, invoke: {name: tools}}\n  - {needs: [aply], invoke: {name: tools}}\n',
    ['unknown-step:1'],
  ],
  [
    '  - {needs: [], invoke: {name: tools, outputs: [{name: o, stdout: true}]}}\n  - {needs: [], invoke: {name: tools, outputs: [{name: o, stdout: true}]}}\n',
    ['output-race:1'],
  ],
  [
    '  - {id: a, invoke: {name: tools, outputs: [{name: o, stdout: true}]}}\n  - {needs: [a], invoke: {name: tools, outputs: [{name: o, stdout: true}]}}\n',
    [],
  ],
  ['  - invoke: {name: tools}\n  - {needs: [], always: true, invoke: {name: tools}}\n', ['always-at-once:1']],
  // expressions
  ['  - invoke: {name: tools, action: {run: "echo ${ bundle.parameters.regoin }"}}\n', ['expression-name:0']],
  ['  - invoke: {name: tools, action: {run: "echo ${ bundle.parameters.onlyup }"}}\n', ['porter-101:0']],
  ['  - invoke: {name: tools, action: {run: "echo ${ bundle.custom.app.vers }"}}\n', ['expression-name:0']],
  [
    '  - invoke: {name: tools, action: {run: "echo ${ bundle.custom.app.version } ${ env.ANY } ${ bundle.images.web.digest } ${HOME}"}}\n',
    [],
  ],
  ['  - invoke: {name: tools, action: {run: "echo ${ matrix.x }"}}\n', ['expression-scope:0']],
  ['  - invoke: {name: tools, action: {run: "echo ${ matrix.x }"}}\n    matrix: {x: [1]}\n', []],
  [
    '  - invoke:\n      name: tools\n      action:\n        run: |\n          true\n          echo ${ bundle.images.wob.tag }\n',
    ['expression-name:5'],
  ],
  ['  - invoke: {name: tools}\n    when: bundle.parameters.region\n', ['expression-syntax:1']],
  [
    '  - invoke: {name: tools, action: {run: "echo \'${ bundle.parameters.region }\'"}}\n',
    ['expression-place:0'],
  ],
  [
    '  - invoke: {name: tools, action: {command: [sh, -c, "echo ${ bundle.parameters.region }"]}}\n',
    ['expression-place:0'],
  ],
  ['  - invoke: {name: tools, action: {command: [echo, "${ bundle.parameters.region }"]}}\n', []],
  // values
  ['  - invoke: {name: tools, outputs: [{name: o, regex: "(a)(?=b)"}]}\n', ['bad-pattern:0']],
  ['  - invoke: {name: tools, outputs: [{name: o, jsonPath: "$.["}]}\n', ['bad-query:0']],
  ['  - invoke: {name: tools, ignoreError: {output: {regex: ["("]}}}\n', ['bad-pattern:0']],
  // environment and outputs
  ['  - invoke: {name: tools, env: {CNAB_ACTION: x}}\n', ['reserved-env:0']],
  [
    '  - {needs: [], inputs: [o], invoke: {name: tools}}\n  - {needs: [], invoke: {name: tools, outputs: [{name: o, stdout: true}]}}\n',
    ['output-later:0'],
  ],
  // files
  ['  - invoke: {name: tools, action: {command: [./gone.sh]}}\n', ['missing-file:0']],
  ['  - invoke: {name: tools, action: {run: "./there.sh && ./gone.sh"}}\n', ['missing-file:0']],
] as const)('%j', async (steps, expected) => {
  expect(await codes(steps)).toEqual(expected);
});

test.each([
  ['  - {name: p, type: integer, default: x}', 'bad-default'],
  ['  - {name: p, type: string, default: 7}', 'bad-default'],
  ['  - {name: p, type: string, pattern: "^a+$", default: b}', 'bad-default'],
  ['  - {name: p, type: string, pattern: "^(a|b)+$", default: c}', 'bad-default'],
  ['  - {name: p, type: string, pattern: "(a"}', 'bad-pattern'],
  ['  - {name: p, type: string, pattern: "[z-a]+"}', 'bad-pattern'],
  ['  - {name: p, type: string, minLength: -1}', 'bad-schema'],
  ['  - {name: p, type: string, applyTo: [instal]}', 'unknown-name'],
  ['  - {name: p, type: string, source: {output: nowhere}}', 'unknown-name'],
  ['  - {name: p, type: string, sensitive: true, default: hunter2}', 'secret-default'],
])('parameters: %s', async (parameter, code) => {
  const source = head.replace('parameters:\n', `parameters:\n${parameter}\n`);
  const found = await lintSource(`${source}install:\n  - invoke: {name: tools}\n${both}`, { file: 'f' });
  expect(
    found.filter((one) => one.severity !== 'note').map((one) => `${one.code}:${one.place.line}`),
  ).toEqual([`${code}:7`]);
  expect(JSON.stringify(found)).not.toContain('is hunter2');
});

const credentials = 'credentials:\n  - {name: kube, path: /root/.kube/config}\n';

test('a credential that no step sees is an error, however it could be seen', async () => {
  const plain = '  - invoke: {name: tools}\n';
  expect(await codes(plain, credentials)).toEqual([expect.stringContaining('credential-unseen')]);
  expect(await codes(`${plain}    credentials: [kube]\n`, credentials)).toEqual([]);
  expect(await codes(`${plain}    credentials: all\n`, credentials)).toEqual([]);
  expect(
    await codes('  - invoke: {name: tools, env: {K: "${ bundle.credentials.kube }"}}\n', credentials),
  ).toEqual([]);
});

test('which step can alter what another runs with a credential', async () => {
  const notes = async (image: string) =>
    (
      await lintSource(
        `${head.replace('{name: other,', `{name: other, ${image}`)}install:\n  - invoke: {name: other}\n  - invoke: {name: tools}\n    credentials: [kube]\n${credentials}`,
        { file: 'f' },
      )
    )
      .filter((one) => one.code === 'workspace-reach')
      .map((one) => one.message);
  expect(await notes('')).toEqual([
    'the step install[0] (image other) can alter what the step install[1] (image tools) runs with the credential kube',
  ]);
  expect(await notes('workspace: ro, ')).toEqual([]);
});

const mendable: readonly string[] = [
  '  - invoke: {name: tools, action: {run: "echo \'${ bundle.parameters.region }\'"}}\n',
  '  - invoke:\n      - name: tools\n      - action:\n          run: |\n            echo \'${ bundle.parameters.region }\'\n            sh -c "echo ${ bundle.parameters.region }"\n',
  '  - invoke:\n      name: tools\n      env:\n        A: b\n      action:\n        run: "echo \'${ bundle.parameters.region }\'"\n',
  '  - invoke:\n      name: tools\n      env: {}\n      action: {command: [bash, -ec, "echo ${ bundle.parameters.region }"]}\n',
  '  - invoke:\n      name: tools\n      env:\n      action: {command: [python3, -c, "print(1, ${ bundle.parameters.region })"]}\n',
  '  - invoke: {name: tols, action: {run: "echo ${ bundle.parameters.regoin }"}}\n',
  '  - invoke: {name: tools, env: {K: "${ bundle.credentials.kube }"}}\n    credentials: []\n',
  '  - invoke: {name: tools, env: {K: "${ bundle.credentials.kube }"}}\n    credentials:\n      - ssh\n',
];

test.each(mendable)('%j is mended, and a second fix changes nothing', async (steps) => {
  const more = 'credentials:\n  - {name: kube, path: /k}\n  - {name: ssh, path: /s}\n';
  const seen = '  - invoke: {name: tools}\n    credentials: [kube, ssh]\n';
  let source = `${head}install:\n${steps}${seen}${both}${more}`;
  let rounds = 0;
  for (; rounds < 8; rounds++) {
    const found = await lintSource(source, { file: 'f' });
    const next = applyEdits(
      source,
      mergeFixes(found.flatMap((one) => (one.fix === undefined ? [] : [one.fix]))),
    );
    if (next === source) break;
    source = next;
  }
  expect(rounds).toBeGreaterThan(0);
  expect(rounds).toBeLessThan(8);
  const left = await lintSource(source, { file: 'f' });
  expect(
    left.filter((one) => one.severity === 'error' || one.fix !== undefined),
    source,
  ).toEqual([]);
  expect(source.startsWith(head)).toBe(true);
});

test('the proposal’s bundle without its image says where and how', async () => {
  const source = `name: c\nversion: 2.0.0\ninvocationImages:\n  - {name: t, image: x.example/t}\ninstall:\n  - invoke:\n      - name: t\n      - action:\n          run: |\n            docker run \${bundle.images.myapp.repository}\n`;
  const [problem] = await lintSource(source, { file: 'porter.yaml' });
  expect(problem).toMatchObject({
    code: 'expression-name',
    place: { line: 10, column: 40 },
    hint: 'declare it: `images: {myapp: {repository: REGISTRY/NAME, tag: TAG}}`',
  });
  expect(problem?.place.excerpt?.split('\n')[1]?.indexOf('^')).toBe(39);
});

test('a bundle that has been through JSON is linted from its source', async () => {
  const { bundle } = parseBundle(
    `${head}install:\n  - invoke: {name: tools, action: {run: "\${ bundle.name }"}}\n${both}`,
    { file: 'f' },
  );
  if (bundle === undefined) throw new Error('does not parse');
  expect(await lintBundle({ ...bundle })).toEqual(await lintBundle(bundle));
});

test('a thousand steps in a chain of needs take no quadratic time', async () => {
  const steps = Array.from(
    { length: 1000 },
    (_, i) =>
      `  - {id: s${i}, ${i > 0 ? `needs: [s${i - 1}], ` : ''}invoke: {name: tools, outputs: [{name: o, stdout: true}]}}\n`,
  ).join('');
  const took = await cpuSeconds(async () => expect(await codes(steps)).toEqual([]));
  expect(took).toBeLessThan(10);
});

test('a file as an argument of a program is noted, as one of the shell it is not', async () => {
  const steps = `  - invoke:
      name: tools
      action:
        run: |
          echo "\${ bundle.outputs.manifest }" > here
          kubectl apply --of "\${ bundle.outputs.manifest }" "\${ bundle.outputs.short }"
`;
  const outputs = 'outputs:\n  - {name: manifest, type: file}\n  - {name: short, type: string}\n';
  const found = await lintSource(`${head}install:\n${steps}${both}${outputs}`, { file: 'f' });
  expect(found.filter((one) => one.code === 'long-argument')).toMatchObject([
    {
      severity: 'note',
      message: '`kubectl` gets the file `manifest` as an argument, which ends at 128 KiB',
      hint: expect.stringContaining('/cnab/app/inputs/manifest'),
    },
  ]);
});

test('a value is judged without being shown', () => {
  expect(checkValue({ type: 'string', enum: ['eu', 'us'] }, 'hunter2')).toBe('must be one of "eu", "us"');
  expect(checkValue({ type: 'object', properties: { a: { type: 'integer' } } }, { a: 'hunter2' })).toBe(
    '(at a) must be of type integer, and is of type string',
  );
  expect(checkValue({ type: 'integer', minimum: 1 }, 1)).toBeUndefined();
});

test('two values under one variable are an error at the second', async () => {
  const source = head.replace('custom:', '  - {name: p, type: string, env: REGION, default: x}\ncustom:');
  const found = await lintSource(`${source}install:\n  - invoke: {name: tools}\n${both}`, { file: 'f' });
  expect(
    found.filter((one) => one.severity !== 'note').map((one) => `${one.code}:${one.place.line}`),
  ).toEqual(['same-destination:9']);
});

const facts: FactsOf = ({ name }) =>
  name === 'tools'
    ? {
        entrypoint: ['/bin/sh', '-c'],
        interface: {
          inputs: {
            release: { type: 'string', pattern: '^[a-z]+$' },
            replicas: { type: 'integer', minimum: 1 },
          },
          required: ['release'],
          credentials: ['token'],
        },
      }
    : undefined;

async function locked(steps: string, rest = 'credentials: [{name: token, env: TOKEN}]\n') {
  const found = await lintSource(`${head}install:\n${steps}${both}${rest}`, { file: 'p', images: facts });
  return found
    .filter((one) => one.place.line !== undefined && one.place.line >= first && one.severity !== 'note')
    .filter((one) => one.place.line !== undefined && one.place.line < first + lines(steps) - 1)
    .map((one) => `${one.code}:${one.place.line! - first}:${one.place.column}`);
}

test.each([
  ['  - {credentials: [token], invoke: {name: tools, action: {with: {release: app, replicas: 2}}}}\n', []],
  [
    '  - {credentials: [token], invoke: {name: tools, action: {with: {relase: app}}}}\n',
    ['missing-input:0:59', 'unknown-input:0:66'],
  ],
  [
    '  - {credentials: [token], invoke: {name: tools, action: {with: {release: App, replicas: "2"}}}}\n',
    ['bad-input:0:75', 'bad-input:0:90'],
  ],
  [
    '  - {credentials: [token], invoke: {name: tools, action: {with: {release: "${ bundle.parameters.region }"}}}}\n',
    [],
  ],
  // The file tells the type of what the expression will be.
  [
    '  - {credentials: [token], invoke: {name: tools, action: {with: {release: app, replicas: "${ bundle.parameters.region }"}}}}\n',
    ['bad-input:0:90'],
  ],
  [
    '  - {credentials: [token], invoke: {name: tools, action: {with: {release: app, replicas: "${ length(bundle.parameters.region) }"}}}}\n',
    [],
  ],
  [
    '  - {credentials: [token], invoke: {name: tools, action: {with: {release: app, replicas: "1${ installation.name }"}}}}\n',
    ['bad-input:0:90'],
  ],
  ['  - {invoke: {name: tools, action: {with: {release: app}}}}\n', ['missing-credential:0:37']],
  ['  - {credentials: [token], invoke: {name: tools}}\n', ['missing-input:0:43']],
  ['  - {invoke: {name: tools, action: {command: [ls]}}}\n', []],
  // what stands behind an interpreter that only the lock knows of
  [
    '  - {invoke: {name: tools, action: {args: ["ls ${ bundle.parameters.region }"]}}}\n',
    ['expression-place:0:48'],
  ],
  ['  - {invoke: {name: other, action: {args: ["ls ${ bundle.parameters.region }"]}}}\n', []],
])('what the lock says of images is checked: %s', async (steps, expected) => {
  expect(await locked(steps)).toEqual(expected);
});

test('a tag that moved, or that nobody told of, is a warning at its place', async () => {
  const source = `${head}install:\n  - invoke: {name: tools}\n  - invoke: {name: other}\n`;
  const found = await lintSource(source, {
    file: 'p',
    tags: new Map([
      ['tools', { kind: 'moved', from: 'sha256:aa', to: 'sha256:bb' }],
      ['other', { kind: 'unknown', reason: 'no answer' }],
    ]),
  });
  expect(
    found
      .filter((one) => one.code.endsWith('-tag'))
      .map(({ severity, code, place }) => [severity, code, place.line, place.column]),
  ).toEqual([
    ['warning', 'moved-tag', 4, 26],
    ['warning', 'unknown-tag', 5, 26],
  ]);
});
