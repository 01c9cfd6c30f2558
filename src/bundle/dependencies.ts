import { childOf, type DocNode, entryOf } from '../document/index.ts';
import { defined } from './invocation-images.ts';
import type { Dependency } from './model.ts';
import { badValue, type Reader, report, textOf, textRecordOf } from './reader.ts';
import { imageReference } from './references.ts';
import {
  any,
  expressionText,
  field,
  list,
  matching,
  object,
  plainName,
  record,
  required,
  text,
} from './shape.ts';

const requirement = object({
  name: required(matching(plainName), 'the alias in `${ bundle.dependencies.NAME.outputs.X }`'),
  bundle: required(
    object({
      reference: field(text, 'REGISTRY/NAME:TAG of the published bundle'),
      version: field(text, 'range of versions'),
      id: field(text, 'ignored by Porter'),
      interface: field(any, 'needs Porter’s experiment dependencies-v2'),
    }),
    'which bundle',
  ),
  parameters: field(record(expressionText), 'parameters of the dependency'),
  credentials: field(record(expressionText), 'needs Porter’s experiment dependencies-v2'),
  outputs: field(record(expressionText), 'needs Porter’s experiment dependencies-v2'),
  sharing: field(any, 'needs Porter’s experiment dependencies-v2'),
});

export const dependenciesShape = object({
  requires: field(list(requirement), 'bundles that run before this one'),
  provides: field(
    object({ interface: field(any, 'what this bundle stands in for') }),
    'needs Porter’s experiment dependencies-v2',
  ),
});

export function readDependency(reader: Reader, node: DocNode): Dependency | undefined {
  const name = textOf(node, 'name');
  const bundle = childOf(node, 'bundle');
  if (name === undefined || bundle === undefined) return undefined;
  const reference = textOf(bundle, 'reference');
  if (reference === undefined)
    report(reader, entryOf(node, 'bundle')?.keySpan ?? node.span, {
      code: 'missing-key',
      message: `the dependency \`${name}\` has no \`bundle.reference\``,
      hint: 'add `reference: REGISTRY/NAME:TAG`',
    });
  else if (!imageReference.pattern.test(reference))
    badValue(
      reader,
      childOf(bundle, 'reference')?.span ?? node.span,
      `the reference \`${reference}\` of the dependency \`${name}\``,
      `must be ${imageReference.says}`,
    );
  return {
    name,
    reference: reference ?? '',
    ...defined({ version: textOf(bundle, 'version') }),
    parameters: textRecordOf(node, 'parameters'),
    credentials: textRecordOf(node, 'credentials'),
    outputs: textRecordOf(node, 'outputs'),
    span: node.span,
  };
}
