import { type DocNode, didYouMean, entryOf, type Json, type Span } from '../../document/index.ts';
import type { Bundle, InvocationImage } from '../model.ts';
import { invokeMember, type LintContext, type PlacedStep } from './context.ts';
import type { UsedPaths } from './expressions.ts';
import { typeMisfit } from './input-types.ts';
import { checkValue, loadPatterns } from './values.ts';
import { visibleTo } from './visibility.ts';

/** What an image says of itself in the label `dev.skycap.interface`, as far as lint needs it. */
export interface InterfaceFacts {
  /** JSON Schema by input. */
  readonly inputs?: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
  readonly credentials?: readonly string[];
}

/** What porter.lock says of one image. Believed here: a run compares it with verified bytes before anything starts. */
export interface ImageFacts {
  readonly entrypoint: readonly string[];
  readonly interface?: InterfaceFacts;
}

/** Undefined where porter.lock does not pin the image. */
export type FactsOf = (image: InvocationImage) => ImageFacts | undefined;

/**
 * Steps that use their image's interface: inputs it does not know, values that do not fit, what is missing
 * (docs/bundle.md, "Interface").
 */
export async function checkInterfaces(context: LintContext, used: UsedPaths): Promise<void> {
  const { images } = context.options;
  if (images === undefined) return;
  for (const placed of context.steps) {
    const { body } = placed.step;
    if (body.kind !== 'invoke' || placed.image === undefined) continue;
    if (body.command.kind !== 'with' && body.command.kind !== 'image') continue;
    const facts = images(placed.image);
    const given = withNode(context, placed);
    if (facts?.interface === undefined) {
      if (given !== undefined) reportUnchecked(context, placed, { span: given.keySpan, facts });
      continue;
    }
    const at = given?.keySpan ?? invokeMember(context, placed, 'name')?.span ?? placed.step.span;
    await checkInputs(context, placed, { declared: facts.interface, given: given?.value, at });
    checkCredentials(context, placed, { wanted: facts.interface.credentials ?? [], used, at });
  }
}

function withNode(context: LintContext, placed: PlacedStep): ReturnType<typeof entryOf> {
  return entryOf(invokeMember(context, placed, 'action'), 'with');
}

function reportUnchecked(
  context: LintContext,
  placed: PlacedStep,
  { span, facts }: { readonly span: Span; readonly facts: ImageFacts | undefined },
): void {
  const image = placed.image?.name ?? '';
  if (facts === undefined)
    context.report(span, {
      severity: 'note',
      code: 'with-unchecked',
      message: `\`with\` of the step ${placed.label} is not checked: porter.lock does not pin ${image}`,
      hint: 'pin it with: skycap lock',
    });
  else
    context.report(span, {
      severity: 'warning',
      code: 'with-unchecked',
      message: `the image ${image} says nothing of its inputs, so \`with\` of the step ${placed.label} is not checked`,
      hint: 'give the image the label dev.skycap.interface',
    });
}

async function checkInputs(
  context: LintContext,
  placed: PlacedStep,
  options: { readonly declared: InterfaceFacts; readonly given: DocNode | undefined; readonly at: Span },
): Promise<void> {
  const inputs = options.declared.inputs ?? {};
  const entries = options.given?.kind === 'map' ? options.given.entries : [];
  const image = placed.image?.name ?? '';
  const values = placed.step.body.kind === 'invoke' ? placed.step.body.command : undefined;
  const json = values?.kind === 'with' ? (values.values.value as Readonly<Record<string, Json>>) : {};
  for (const { key, keySpan, value } of entries) {
    if (!Object.hasOwn(inputs, key)) {
      const meant = didYouMean(key, Object.keys(inputs));
      const known = Object.keys(inputs).join(', ') || 'none';
      context.report(keySpan, {
        code: 'unknown-input',
        message: `the image ${image} has no input \`${key}\``,
        hint: meant === undefined ? `its inputs: ${known}` : `did you mean \`${meant}\`?`,
        ...(meant === undefined ? {} : { fix: [{ span: keySpan, text: meant }] }),
      });
      continue;
    }
    const wrong = await misfit(context.bundle, inputs[key], json[key] as Json);
    if (wrong !== undefined)
      context.report(value.span, {
        code: 'bad-input',
        message: `the input \`${key}\` of the image ${image} ${wrong}`,
      });
  }
  const missing = (options.declared.required ?? []).filter(
    (name) => !entries.some((entry) => entry.key === name),
  );
  for (const name of missing)
    context.report(options.at, {
      code: 'missing-input',
      message: `the step ${placed.label} does not give the input \`${name}\`, which the image ${image} requires`,
      hint: `add it: \`with: {${name}: …}\``,
    });
}

/** Values with expressions are known only later, but often their types; what stands in the file is checked now. */
async function misfit(bundle: Bundle, schema: unknown, value: Json): Promise<string | undefined> {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return undefined;
  if (typeof value === 'string' && holdsExpression(value))
    return typeMisfit(bundle, value, (schema as { readonly type?: Json }).type);
  if (holdsExpression(value)) return undefined;
  if (JSON.stringify(schema).includes('"pattern')) await loadPatterns();
  return checkValue(schema as { readonly [key: string]: Json }, value);
}

function holdsExpression(value: Json): boolean {
  if (typeof value === 'string') return value.includes('${') || value.includes('{{');
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsExpression);
}

function checkCredentials(
  context: LintContext,
  placed: PlacedStep,
  options: { readonly wanted: readonly string[]; readonly used: UsedPaths; readonly at: Span },
): void {
  const declared = context.bundle.credentials.map((one) => one.name);
  const seen = visibleTo(context, placed, options.used);
  for (const name of options.wanted) {
    if (seen.has(name)) continue;
    const isDeclared = declared.includes(name);
    context.report(options.at, {
      code: 'missing-credential',
      message: `the image ${placed.image?.name ?? ''} wants the credential \`${name}\`, which ${isDeclared ? `the step ${placed.label} does not see` : 'the bundle does not declare'}`,
      hint: isDeclared
        ? `name it under \`credentials:\` of the step or of the invocation image`
        : `declare it under \`credentials:\` and name it in the step`,
    });
  }
}
