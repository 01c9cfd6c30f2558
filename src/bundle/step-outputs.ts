import { childOf, type DocNode } from '../document/index.ts';
import { defined } from './invocation-images.ts';
import type { StepOutput } from './model.ts';
import { badValue, boolOf, headOf, type Reader, report, textOf } from './reader.ts';
import { bool, field, matching, nonEmpty, object, plainName, required } from './shape.ts';

export const stepOutputShape = object({
  name: required(matching(plainName), 'the name in `${ bundle.outputs.NAME }`'),
  path: field(matching(nonEmpty), 'file that holds it; relative to /cnab/app'),
  jsonPath: field(matching(nonEmpty), 'query (RFC 9535) on the standard output, read as JSON'),
  regex: field(matching(nonEmpty), 'RE2 pattern with a capture group, matched on the standard output'),
  stdout: field(bool, 'the whole standard output'),
  sensitive: field(bool, 'as the bundle’s output of that name, else true'),
});

const SOURCES = ['path', 'jsonPath', 'regex', 'stdout'] as const;

export function readStepOutput(reader: Reader, node: DocNode, label: string): StepOutput | undefined {
  const name = textOf(node, 'name');
  if (name === undefined || node.kind !== 'map') return undefined;
  const given = SOURCES.filter((key) =>
    key === 'stdout' ? boolOf(node, key) === true : textOf(node, key) !== undefined,
  );
  if (given.length > 1)
    report(reader, headOf(node), {
      code: 'conflicting-keys',
      message: `${label} takes its value from ${given.map((key) => `\`${key}\``).join(' and ')}`,
      hint: 'keep one of them',
    });
  const kind = given[0];
  if (kind === undefined) {
    report(reader, headOf(node), {
      code: 'output-without-source',
      message: `the output \`${name}\` says nowhere where its value comes from`,
      hint: 'add one of `path:`, `jsonPath:`, `regex:` and `stdout: true`',
    });
    return undefined;
  }
  const source = readSource(reader, node, kind);
  return { name, source, ...defined({ sensitive: boolOf(node, 'sensitive') }), span: node.span };
}

function readSource(reader: Reader, node: DocNode, kind: (typeof SOURCES)[number]): StepOutput['source'] {
  const value = textOf(node, kind) ?? '';
  const span = childOf(node, kind)?.span ?? node.span;
  if (kind === 'stdout') return { kind };
  if (kind === 'jsonPath') {
    if (!value.startsWith('$'))
      badValue(reader, span, `the query \`${value}\``, 'must begin with `$`', `did you mean \`$.${value}\`?`);
    return { kind, query: value };
  }
  if (kind === 'regex') {
    if (!hasCaptureGroup(value))
      report(reader, span, {
        code: 'regex-without-group',
        message: `the pattern \`${value.slice(0, 80)}\` has no capture group, so the output would always be empty`,
        hint: 'put the part that is wanted in parentheses',
      });
    return { kind, pattern: value };
  }
  const path = value.startsWith('/') ? value : `/cnab/app/${value.replace(/^(?:\.\/)+/, '')}`;
  if (path.split('/').includes('..'))
    badValue(reader, span, `the output path \`${value}\``, 'must not hold `..`');
  return { kind, path };
}

/** A `(` that is neither escaped, nor in a class, nor the beginning of `(?:`. `(?P<x>` and `(?<x>` do capture. */
function hasCaptureGroup(pattern: string): boolean {
  let inClass = false;
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === '\\') {
      if (pattern[i + 1] === 'Q') {
        const end = pattern.indexOf('\\E', i);
        i = end < 0 ? pattern.length : end + 1;
      } else i++;
    } else if (inClass) inClass = c !== ']';
    else if (c === '[') {
      inClass = true;
      if (pattern[i + 1] === '^') i++;
      if (pattern[i + 1] === ']') i++;
    } else if (c === '(' && (pattern[i + 1] !== '?' || /^\(\?P?</.test(pattern.slice(i, i + 4)))) return true;
  }
  return false;
}
