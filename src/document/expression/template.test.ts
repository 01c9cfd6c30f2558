import { expect, test } from 'vitest';
import {
  absent,
  checkTemplate,
  denied,
  evaluate,
  evaluateCondition,
  evaluatePartially,
  evaluateTree,
  expandArgv,
  late,
  names,
  parseCondition,
  parseTemplate,
  references,
  secret,
  value,
} from './index.ts';

const scope = names({
  bundle: names({
    name: value('web'),
    parameters: names({
      region: value('eu'),
      count: value(3),
      on: value(true),
      list: value(['a b', 2, null]),
      db: value({ host: 'h', ports: [1, 2] }),
      'a.b': value('dotted'),
      'my key': value('spaced'),
      secret: value('s3', { sensitive: true }),
    }),
    credentials: names({ token: secret('credential token') }),
    outputs: names({ ip: late('output ip of apply'), gone: absent('the step `db` was skipped') }),
  }),
  env: names({ HOME: value('/root') }, { open: true }),
  installation: names({ name: value('i') }),
});
const run = (text: string) => evaluate(parseTemplate(text), scope).value;

test.each([
  ['${HOME}', '${HOME}'],
  ['${#arr[@]}', '${#arr[@]}'],
  ['${VAR:-x}', '${VAR:-x}'],
  ['${env}', '${env}'],
  ['${!env}', '${!env}'],
  ['${env[0]}', '${env[0]}'],
  ['$${HOME}', '$${HOME}'],
  ['$${bundle.name}', '${bundle.name}'],
  ['$${ bundle.name }!', '${ bundle.name }!'],
  ['a $${bundle.name}${bundle.name}', 'a ${bundle.name}web'],
  ['${ date; }', '${ date; }'],
  ['{{ bundle.name }}', '{{ bundle.name }}'],
  ['${bundle.name}', 'web'],
  ['x-${ bundle.name }-${ bundle.parameters.count }', 'x-web-3'],
  ['${ bundle.parameters.count }', 3],
  ['${ bundle.parameters.list }', ['a b', 2, null]],
  ['v=${ bundle.parameters.db }', 'v={"host":"h","ports":[1,2]}'],
  ['${ bundle.parameters.db.host }', 'h'],
  ['${ bundle.parameters.db.ports[1] }', 2],
  ['${ bundle.parameters["a.b"] }', 'dotted'],
  ['${ bundle.parameters.my key }', 'spaced'],
  ['${ default(bundle.outputs.gone, "none") }', 'none'],
  ["${ upper('x') == upper(bundle.name) }", false],
  ['${ "a}b" == bundle.name }', false],
  ['${ !bundle.parameters.on || bundle.parameters.count >= 3 && bundle.name in ["web", "db"] }', true],
  ['${ replace(bundle.name, "e", "$&") }', 'w$&b'],
  ['${ join(split("a,b" , ","), bundle.name) }', 'awebb'],
  ['${ fromJson(toJson(bundle.parameters.db)).ports }', [1, 2]],
  ['${ base64(bundle.name) }', 'd2Vi'],
  ['${ semver("1.4.2", default(bundle.outputs.gone, "^1.2")) }', true],
  ['${ length(bundle.parameters.list) }', 3],
  ['${ startsWith(bundle.name, "w") }', true],
])('%s', (text, expected) => {
  expect(run(text)).toEqual(expected);
});

test.each([
  ['${ bundle.nam }', 'EXPRESSION_UNKNOWN_NAME', 'did you mean `bundle.name`?'],
  ['${ bundle.parameters.db.hots }', 'EXPRESSION_UNKNOWN_NAME', 'did you mean `bundle.parameters.db.host`?'],
  ['${ bundle.parameters }', 'EXPRESSION_UNKNOWN_NAME', 'name one of its members'],
  ['${ bundle.outputs.gone }', 'EXPRESSION_NO_VALUE', 'default(bundle.outputs.gone'],
  ['${ bundle.outputs.ip }', 'EXPRESSION_LATE', 'output ip of apply'],
  ['${bundle.name', 'EXPRESSION_SYNTAX', undefined],
  ['${env.X:-y}', 'EXPRESSION_SYNTAX', 'default('],
  ['${#bundle.parameters.on}x${/bundle.parameters.on}', 'EXPRESSION_SYNTAX', 'when'],
  ['${ bundle.name && true }', 'EXPRESSION_TYPE', undefined],
  ['${ fromJson(bundle.name) }', 'EXPRESSION_FUNCTION', undefined],
  ['${ uper(bundle.name) }', 'EXPRESSION_SYNTAX', 'did you mean `upper`?'],
])('%s fails', (text, code, hint) => {
  try {
    run(text);
    expect.unreachable();
  } catch (error) {
    expect(error).toMatchObject({ code });
    if (hint !== undefined) expect((error as { hint: string }).hint).toContain(hint);
  }
});

test('partial evaluation leaves a text that gives the same', () => {
  const text =
    'http://${ bundle.outputs.ip }/${ bundle.name }?${ upper(default(bundle.outputs.ip, bundle.parameters.region)) }';
  const result = evaluatePartially(parseTemplate(text), scope);
  expect(result).toMatchObject({
    state: 'late',
    residual:
      'http://${ bundle.outputs.ip }/web?${ upper(default(bundle.outputs.ip, bundle.parameters.region)) }',
    waitsFor: ['output ip of apply'],
    sensitive: false,
  });
  expect(evaluatePartially(parseTemplate('${ env.X }'), scope)).toMatchObject({ display: '⟨env.X⟩' });
  expect(
    evaluatePartially(parseTemplate('a${ bundle.parameters.secret }${ bundle.credentials.token }'), scope),
  ).toMatchObject({
    sensitive: true,
    display: 'a⟨secret⟩⟨credential token⟩',
    residual: 'a${ bundle.parameters.secret }${ bundle.credentials.token }',
  });
});

test('lazy, typed and tainted', () => {
  expect(run('${ false && bundle.outputs.ip == "x" }')).toBe(false);
  expect(evaluate(parseTemplate('${ length(bundle.parameters.secret) }'), scope)).toEqual({
    state: 'value',
    value: 2,
    sensitive: true,
    sensitivePaths: ['bundle.parameters.secret'],
  });
  expect(evaluateCondition(parseCondition('${ true }'), scope).value).toBe(true);
  expect(() => evaluateCondition(parseCondition('${ bundle.name }'), scope)).toThrow(
    /has to be true or false/,
  );
  expect(checkTemplate(parseCondition('bundle.name == "x"'), scope)[0]).toMatchObject({
    code: 'expression-syntax',
  });
});

test('trees and arguments', () => {
  expect(
    evaluateTree({ '${bundle.name}': ['${ bundle.parameters.list }', '${ bundle.name }\nx: y'] }, scope)
      .value,
  ).toEqual({
    web: [['a b', 2, null], 'web\nx: y'],
  });
  expect(() => evaluateTree({ web: 1, '${bundle.name}': 2 }, scope)).toThrow(/equal/);
  expect(Object.getPrototypeOf(evaluateTree(JSON.parse('{"__proto__": 1}'), scope).value)).toBe(
    Object.prototype,
  );
  expect(
    expandArgv(['x', '${ bundle.parameters.list }', 'n=${ bundle.parameters.count }'], scope).map(
      (a) => a.text,
    ),
  ).toEqual(['x', 'a b', '2', '', 'n=3']);
});

test('findings and references', () => {
  const place = names({
    bundle: names({
      name: late('name'),
      parameters: names({ x: denied('it applies to install only', 'extend applyTo') }),
    }),
  });
  const text = '${ bundle.nmae } ${ bundle.parameters.x } ${ bundel.name } ${ upper(bundle.name, 1) }';
  const found = checkTemplate(parseTemplate(text), place);
  expect(found.map((f) => [f.code, text.slice(f.span.start, f.span.end), f.replacement])).toEqual([
    ['expression-name', 'nmae', 'name'],
    ['expression-scope', 'x', undefined],
    ['expression-root', 'bundel', 'bundle'],
    ['expression-function', 'upper(bundle.name, 1)', undefined],
  ]);
  expect(
    references(parseTemplate('${ default(env.A, bundle.name) } ${ matrix.x }')).map((r) => [
      r.text,
      r.guarded,
    ]),
  ).toEqual([
    ['env.A', true],
    ['bundle.name', false],
    ['matrix.x', false],
  ]);
});
