import type { DocNode } from '../document/index.ts';
import type { Credential } from './model.ts';
import { checkPath, inApp, keySpan } from './parameters.ts';
import { boolOf, type Reader, report, textOf, textsOf } from './reader.ts';
import {
  bool,
  envName,
  field,
  list,
  matching,
  nonEmpty,
  object,
  plainName,
  required,
  text,
} from './shape.ts';

export const credentialShape = object({
  name: required(matching(plainName), 'the name that `${ bundle.credentials.NAME }` and `--credential` use'),
  description: field(text, 'what it opens'),
  type: field(text, 'ignored, as in Porter: a credential is text'),
  required: field(bool, 'true unless given'),
  env: field(matching(envName), 'environment variable that carries it'),
  path: field(matching(nonEmpty), 'file that carries it'),
  applyTo: field(list(text), 'actions that take it; all unless given'),
});

export function readCredential(reader: Reader, node: DocNode): Credential | undefined {
  const name = textOf(node, 'name');
  if (name === undefined) return undefined;
  const env = textOf(node, 'env');
  const path = textOf(node, 'path');
  checkPath(reader, node, `the credential \`${name}\``);
  if (env === undefined && path === undefined)
    report(reader, node.span, {
      // Porter takes it and fails when the bundle runs.
      severity: reader.strict ? 'error' : 'warning',
      code: 'credential-nowhere',
      message: `the credential \`${name}\` has neither \`env\` nor \`path\`, so no step can find it`,
      hint: 'add `path:` (a file; safer) or `env:`',
    });
  if (textOf(node, 'type') !== undefined)
    report(reader, keySpan(node, 'type'), {
      severity: 'warning',
      code: 'ignored-key',
      message: `\`type\` of the credential \`${name}\` is ignored, as in Porter`,
      hint: 'remove it; a credential is text, and a file where it has a `path`',
    });
  return {
    name,
    description: textOf(node, 'description') ?? '',
    required: boolOf(node, 'required') ?? true,
    ...(env === undefined ? {} : { env }),
    ...(path === undefined ? {} : { path: inApp(path) }),
    applyTo: textsOf(node, 'applyTo') ?? [],
    span: node.span,
  };
}
