import { type Expression, parseTemplate } from '../../document/expression/index.ts';
import type { Json } from '../../document/index.ts';
import type { Bundle } from '../model.ts';

const results: Readonly<Record<string, string>> = {
  upper: 'string',
  lower: 'string',
  join: 'string',
  toJson: 'string',
  base64: 'string',
  sha256: 'string',
  replace: 'string',
  split: 'array',
  startsWith: 'boolean',
  semver: 'boolean',
  length: 'integer',
};

/** The complaint about an expression whose value, as far as the file tells its type, can never fit the schema. */
export function typeMisfit(bundle: Bundle, text: string, wanted: Json | undefined): string | undefined {
  const types = listOf(wanted);
  const found = typesOf(bundle, text);
  if (types.length === 0 || found === undefined || found.length === 0) return undefined;
  if (found.some((type) => types.some((one) => mayFit(type, one)))) return undefined;
  return `must be ${types.join(' or ')}, and \`${text.trim()}\` is ${found.join(' or ')}`;
}

function mayFit(found: string, wanted: string): boolean {
  const isNumber = (type: string): boolean => type === 'number' || type === 'integer';
  return found === wanted || (isNumber(found) && isNumber(wanted));
}

/** JSON types that the value of a text can have; undefined where only the run knows. */
function typesOf(bundle: Bundle, text: string): readonly string[] | undefined {
  const { parts } = parseTemplate(text, { delimiters: bundle.delimiters });
  if (parts.some((part) => part.kind === 'invalid')) return undefined;
  const [only] = parts;
  return parts.length === 1 && only?.kind === 'expression' ? typesIn(bundle, only.expression) : ['string'];
}

function typesIn(bundle: Bundle, expression: Expression): readonly string[] | undefined {
  switch (expression.kind) {
    case 'literal':
      return [typeOf(expression.value)];
    case 'not':
    case 'binary':
      return ['boolean'];
    case 'list':
      return ['array'];
    case 'call':
      return listOf(results[expression.name]);
    case 'member':
      return undefined;
    case 'path':
      return typesAt(
        bundle,
        expression.segments.map((segment) => segment.name),
      );
  }
}

function typesAt(bundle: Bundle, path: readonly string[]): readonly string[] | undefined {
  const [root, group, name] = path;
  if (root === 'installation') return ['string'];
  if (root !== 'bundle') return undefined;
  if (path.length === 2)
    return ['name', 'version', 'description'].includes(group ?? '') ? ['string'] : undefined;
  if (path.length !== 3) return undefined;
  if (group === 'credentials') return ['string'];
  if (group === 'parameters') {
    const found = bundle.parameters.find((parameter) => parameter.name === name);
    // One that is located at a path stands for the path.
    const isText = found?.isFile === true || (found?.path !== undefined && found.env === undefined);
    return isText ? ['string'] : listOf(found?.schema.type);
  }
  if (group !== 'outputs' || isOfMatrix(bundle, name)) return undefined;
  const found = bundle.outputs.find((output) => output.name === name);
  return found?.isFile === true ? ['string'] : listOf(found?.schema.type);
}

/** Those become one object by the matrix's values. */
function isOfMatrix(bundle: Bundle, name: string | undefined): boolean {
  return [...bundle.actions.values()].some((steps) =>
    steps.some(
      ({ matrix, body }) =>
        matrix !== undefined && body.kind === 'invoke' && body.outputs.some((output) => output.name === name),
    ),
  );
}

function typeOf(value: Json): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function listOf(type: Json | undefined): readonly string[] {
  if (typeof type === 'string') return [type];
  return Array.isArray(type) ? type.filter((one): one is string => typeof one === 'string') : [];
}
