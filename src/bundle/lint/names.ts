import { type DocNode, didYouMean, type Span } from '../../document/index.ts';
import { BUILT_IN } from '../custom-actions.ts';
import { invokeMember, itemSpan, type LintContext, nodeAt, spanAt, stepPath } from './context.ts';

/** Every list of names, and every name, that must have been declared elsewhere in the file. */
export function checkNames(context: LintContext): void {
  checkStepImages(context);
  checkStepLists(context);
  checkImageLists(context);
  checkApplyTo(context);
  checkSources(context);
  checkSharedVolumes(context);
}

interface Unknown {
  readonly what: string;
  readonly where: string;
  readonly known: readonly string[];
  readonly severity?: 'error' | 'warning';
  /** What to do when nothing similar is declared. */
  readonly remedy: string;
}

function unknown(context: LintContext, span: Span, name: string, options: Unknown): void {
  const meant = didYouMean(name, options.known);
  context.report(span, {
    severity: options.severity ?? 'error',
    code: 'unknown-name',
    message: `${options.where} names the ${options.what} \`${name}\`, which is not declared`,
    hint: meant === undefined ? options.remedy : `did you mean \`${meant}\`?`,
    ...(meant === undefined ? {} : { fix: [{ span, text: meant }] }),
  });
}

function checkStepImages(context: LintContext): void {
  const known = context.bundle.invocationImages.map((image) => image.name);
  const used = new Set<string>();
  for (const placed of context.steps) {
    const { body } = placed.step;
    if (body.kind !== 'invoke') continue;
    used.add(body.image);
    if (placed.image !== undefined) continue;
    const span = invokeMember(context, placed, 'name')?.span ?? placed.step.span;
    unknown(context, span, body.image, {
      what: 'invocation image',
      where: `the step ${placed.label}`,
      known,
      remedy:
        known.length === 0 ? 'declare it under `invocationImages:`' : `declared are: ${known.join(', ')}`,
    });
  }
  for (const [i, image] of context.bundle.invocationImages.entries())
    if (!used.has(image.name))
      context.report(spanAt(context, ['invocationImages', i, 'name']), {
        severity: 'warning',
        code: 'unused-image',
        message: `no step uses the invocation image \`${image.name}\``,
        hint: 'remove it, or name it in a step’s `invoke:`',
      });
}

/** Outputs that may exist when a step runs: the bundle's, and those of its steps. */
export function outputNames(context: LintContext): readonly string[] {
  const names = new Set(context.bundle.outputs.map((output) => output.name));
  for (const { step } of context.steps) for (const name of stepOutputNames(step.body)) names.add(name);
  return [...names];
}

export function stepOutputNames(body: LintContext['steps'][number]['step']['body']): readonly string[] {
  if (body.kind === 'invoke') return body.outputs.map((output) => output.name);
  const { value } = body;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  const outputs = (value as { readonly [key: string]: unknown }).outputs;
  if (!Array.isArray(outputs)) return [];
  return outputs.flatMap((output: unknown) => {
    const name = (output as { readonly name?: unknown } | null)?.name;
    return typeof name === 'string' ? [name] : [];
  });
}

function checkStepLists(context: LintContext): void {
  const credentials = context.bundle.credentials.map((one) => one.name);
  const parameters = context.bundle.parameters.map((one) => one.name);
  const outputs = outputNames(context);
  for (const placed of context.steps) {
    const where = `the step ${placed.label}`;
    const lists = [
      ['credentials', placed.step.credentials, 'credential', credentials],
      ['parameters', placed.step.parameters, 'parameter', parameters],
      ['inputs', placed.step.inputs, 'output', outputs],
    ] as const;
    for (const [key, list, what, known] of lists)
      if (list !== 'all' && list !== undefined)
        checkList(context, nodeAt(context, [...stepPath(placed), key]), { list, what, known, where });
  }
}

function checkList(
  context: LintContext,
  node: DocNode | undefined,
  options: {
    readonly list: readonly string[];
    readonly what: string;
    readonly known: readonly string[];
    readonly where: string;
  },
): void {
  const seen = new Set<string>();
  for (const name of options.list) {
    const span = itemSpan(node, name) ?? node?.span ?? { start: 0, end: 0 };
    if (!options.known.includes(name))
      unknown(context, span, name, {
        what: options.what,
        where: options.where,
        known: options.known,
        remedy: `declare it under \`${options.what}s:\`, or remove it here`,
      });
    else if (seen.has(name))
      context.report(span, {
        severity: 'warning',
        code: 'duplicate-item',
        message: `${options.where} names the ${options.what} \`${name}\` twice`,
      });
    seen.add(name);
  }
}

function checkImageLists(context: LintContext): void {
  for (const [i, image] of context.bundle.invocationImages.entries())
    for (const key of ['credentials', 'parameters'] as const) {
      const list = image[key];
      if (list === undefined) continue;
      checkList(context, nodeAt(context, ['invocationImages', i, key]), {
        list,
        what: key.slice(0, -1),
        known: context.bundle[key].map((one) => one.name),
        where: `the invocation image \`${image.name}\``,
      });
    }
}

function checkApplyTo(context: LintContext): void {
  const { bundle } = context;
  const known = [
    ...new Set([...BUILT_IN, ...bundle.actions.keys(), ...bundle.customActions.map((action) => action.name)]),
  ];
  for (const key of ['parameters', 'credentials', 'outputs'] as const) {
    const items = nodeAt(context, [key]);
    if (items?.kind !== 'seq') continue;
    for (const i of items.items.keys()) {
      const list = nodeAt(context, [key, i, 'applyTo']);
      if (list?.kind !== 'seq') continue;
      for (const item of list.items)
        if (item.kind === 'scalar' && item.value !== null && !known.includes(item.text))
          unknown(context, item.span, item.text, {
            what: 'action',
            where: `${key}[${i}].applyTo`,
            known,
            // Porter takes it, and the entry then applies to nothing.
            severity: context.strict ? 'error' : 'warning',
            remedy: `add steps under \`${item.text}:\`, or remove it here`,
          });
    }
  }
}

function checkSources(context: LintContext): void {
  const outputs = outputNames(context);
  const dependencies = context.bundle.dependencies.map((one) => one.name);
  const severity = context.strict ? 'error' : 'warning';
  for (const { source, name, span } of context.bundle.parameters) {
    if (source === undefined) continue;
    const where = `the source of the parameter \`${name}\``;
    if (source.dependency !== undefined && !dependencies.includes(source.dependency))
      unknown(context, span, source.dependency, {
        what: 'dependency',
        where,
        known: dependencies,
        severity,
        remedy: 'declare it under `dependencies.requires`',
      });
    else if (source.dependency === undefined && !outputs.includes(source.output))
      unknown(context, span, source.output, {
        what: 'output',
        where,
        known: outputs,
        severity,
        remedy: 'declare it under `outputs:`',
      });
  }
}

/** Volumes of one name are one volume; it cannot live both for a run and for an installation. */
function checkSharedVolumes(context: LintContext): void {
  const scopes = new Map<string, { readonly scope: string; readonly image: string }>();
  for (const [i, image] of context.bundle.invocationImages.entries())
    for (const [j, volume] of image.volumes.entries()) {
      const earlier = scopes.get(volume.name);
      if (earlier !== undefined && earlier.scope !== volume.scope)
        context.report(spanAt(context, ['invocationImages', i, 'volumes', j, 'name']), {
          code: 'volume-scope',
          message: `the volume \`${volume.name}\` has the scope ${volume.scope} here and ${earlier.scope} in \`${earlier.image}\``,
          hint: 'give one of them another name, or both the same scope',
        });
      else scopes.set(volume.name, { scope: volume.scope, image: image.name });
    }
}
