import type { Bundle, InvocationImage, Step } from '../bundle/index.ts';
import { evaluate, parseTemplate, type Scope, type ScopeNode } from '../document/expression/index.ts';
import { type Json, type Lines, linesOf, placeAt } from '../document/index.ts';
import type { Digest, PinnedImage } from '../oci/index.ts';
import { planCommand } from './command-plan.ts';
import { consents, type IsGranted, isOfferedSocket } from './consents.ts';
import { environmentScope } from './environment.ts';
import { planError } from './errors.ts';
import { inStep } from './in-step.ts';
import type { KnownValue } from './known.ts';
import { mapStrings, readsOf, stringsOf, toLate } from './late.ts';
import { type Cell, matrixCells } from './matrix.ts';
import { dependencies, type NamedStep, nameSteps } from './order.ts';
import { planScope, stepScope } from './scope.ts';
import type {
  Late,
  Plan,
  PlanCredential,
  PlanImage,
  PlanOutput,
  PlanParameter,
  PlanState,
  PlanStep,
} from './types.ts';
import { visibility } from './visibility.ts';

export interface PlanRequest {
  readonly bundle: Bundle;
  readonly action: string;
  readonly installation: { readonly namespace: string; readonly name: string; readonly id: string };
  /** Verified images by name: those that `usedImages` lists. */
  readonly images: ReadonlyMap<string, PinnedImage>;
  /** Digests of the bundle's `images:` by key. */
  readonly referencedDigests: Readonly<Record<string, string>>;
  /** Default commands of the images' interfaces, for steps with `with`. */
  readonly interfaceCommands: ReadonlyMap<string, readonly string[]>;
  /** Values of the parameters that are set, sensitive ones included: none of those gets into the plan. */
  readonly parameters: ReadonlyMap<string, KnownValue>;
  readonly isGranted: IsGranted;
  readonly reference?: string;
  /** Digest of porter.yaml with the lock entries. */
  readonly digest: Digest;
}

/** State by default: what a run changed in the workspace, up to this. */
const mostStateBytes = 1024 ** 3;

/** Names of the invocation images that an action's steps use. @throws ACTION_UNKNOWN, ACTION_NEEDS_MIGRATION */
export function usedImages(bundle: Bundle, action: string): readonly string[] {
  const names = actionSteps(bundle, action).map((step) => {
    if (step.body.kind === 'mixin') throw needsMigration(bundle, action, step.body.mixin);
    return step.body.image;
  });
  return [...new Set(names)];
}

/**
 * The plan of one action: pure, and JSON through and through (docs/bundle.md). Matrix cells are expanded, waiting is
 * spelt out, everything that is known stands there; what is late or sensitive stands by name.
 *
 * @throws ACTION_UNKNOWN, ACTION_NEEDS_MIGRATION, STEP_NO_COMMAND, MATRIX_INVALID, and those of expressions
 */
export function makePlan(request: PlanRequest): Plan {
  const { bundle, action, installation } = request;
  const named = nameSteps(action, actionSteps(bundle, action));
  const applies = (entry: { readonly applyTo: readonly string[] }): boolean =>
    entry.applyTo.length === 0 || entry.applyTo.includes(action);
  const parameters = bundle.parameters
    .filter(applies)
    .map((parameter) => planParameter(parameter, request.parameters.get(parameter.name)));
  const credentials: readonly PlanCredential[] = bundle.credentials
    .filter(applies)
    .map(({ name, required, env, path }) => ({
      name,
      required,
      ...(env === undefined ? {} : { env }),
      ...(path === undefined ? {} : { path }),
    }));
  const outputs: readonly PlanOutput[] = bundle.outputs
    .filter(applies)
    .map(({ name, sensitive, isFile, schema, path, default: fallback }) => ({
      name,
      sensitive,
      isFile,
      schema,
      ...(path === undefined ? {} : { path }),
      ...(fallback === undefined ? {} : { default: fallback }),
    }));
  const images = Object.fromEntries(
    [...request.images].map(([name, pinned]) => {
      const image = declared(bundle, name);
      const users = named.filter(({ step }) => step.body.kind === 'invoke' && step.body.image === name);
      const docker = image.docker || isOfferedSocket(name, users, request.isGranted);
      return [name, planImage({ ...image, docker }, pinned)] as const;
    }),
  );
  const referencedImages = referenced(bundle, request.referencedDigests);
  const shared = planScope({
    bundle,
    action,
    installation,
    parameters,
    credentials,
    outputs,
    images: referencedImages,
    stepOutputs: stepOutputs(named, bundle),
  });
  const context: StepContext = { request, shared, images, parameters, credentials };
  let found: Lines | undefined;
  const lines = (): Lines => (found ??= linesOf(bundle.source));
  const within = <T>({ name, step }: NamedStep, work: () => T): T =>
    inStep(name, work, () => placeAt(lines(), bundle.file, step.span.start));
  const cells = new Map(
    named.map((one) => [one.name, within(one, () => cellsOf(one.name, one.step, context))]),
  );
  const waits = dependencies(named);
  const idsOf = (name: string): readonly string[] =>
    (cells.get(name) ?? []).map((cell) => stepId(name, cell));
  const steps = named.flatMap((one) => {
    const needs = (waits.get(one.name) ?? []).flatMap(idsOf);
    return within(one, () =>
      (cells.get(one.name) ?? []).map((cell) => planStep(one, { cell, needs }, context)),
    );
  });
  const declaredAction = bundle.customActions.find((custom) => custom.name === action);
  return {
    planVersion: 1,
    bundle: {
      name: bundle.name,
      version: bundle.version,
      description: bundle.description,
      ...(request.reference === undefined ? {} : { reference: request.reference }),
      digest: request.digest,
    },
    action,
    modifies: declaredAction?.modifies ?? true,
    stateless: declaredAction?.stateless ?? false,
    installation: { namespace: installation.namespace, name: installation.name },
    delimiters: bundle.delimiters,
    images,
    referencedImages,
    custom: bundle.custom,
    parameters,
    credentials,
    outputs,
    state: planState(bundle),
    steps,
    consents: consents(steps, images, { bundle, isGranted: request.isGranted }),
  };
}

interface StepContext {
  readonly request: PlanRequest;
  readonly shared: ReadonlyMap<string, ScopeNode>;
  readonly images: Readonly<Record<string, PlanImage>>;
  readonly parameters: readonly PlanParameter[];
  readonly credentials: readonly PlanCredential[];
}

function planStep(
  { name, step }: NamedStep,
  { cell, needs }: { readonly cell: Cell | undefined; readonly needs: readonly string[] },
  context: StepContext,
): PlanStep {
  const { bundle, action } = context.request;
  if (step.body.kind === 'mixin') throw needsMigration(bundle, action, step.body.mixin);
  const { body } = step;
  const image = context.images[body.image] as PlanImage;
  const { delimiters } = bundle;
  const reads = readsOf(textsOf(step), delimiters);
  const sees = visibility(step, declared(bundle, body.image), {
    bundle,
    parameters: context.parameters,
    credentials: context.credentials,
    reads,
  });
  const env = environmentScope(image.image, {
    parameters: context.parameters,
    credentials: context.credentials,
    sees,
  });
  const scope = stepScope(context.shared, { env, cell: cell?.values });
  const { command, with: inputs } = planCommand(body.command, {
    step: name,
    scope,
    delimiters,
    image: image.image,
    interfaceCommand: context.request.interfaceCommands.get(body.image),
  });
  return {
    id: stepId(name, cell),
    name,
    index: step.index,
    description: toLate(step.description.text, scope, delimiters),
    image: body.image,
    command,
    dir: toLate(body.dir?.text ?? '', scope, delimiters),
    env: Object.fromEntries([...body.env].map(([key, text]) => [key, toLate(text.text, scope, delimiters)])),
    ...(inputs === undefined ? {} : { with: inputs }),
    needs,
    ...(step.when === undefined ? {} : { when: condition(step.when, scope, delimiters) }),
    ...(cell === undefined
      ? {}
      : {
          cell: cell.values,
          matrix: {
            failFast: step.failFast,
            ...(step.maxParallel === undefined ? {} : { maxParallel: step.maxParallel }),
          },
        }),
    ...(step.timeoutMs === undefined ? {} : { timeoutMs: step.timeoutMs }),
    ...(step.retry === undefined ? {} : { retry: step.retry }),
    idempotent: step.idempotent,
    always: step.always,
    suppressOutput: body.suppressOutput,
    ...(body.ignoreError === undefined ? {} : { ignoreError: body.ignoreError }),
    outputs: body.outputs.map((output) => ({
      name: output.name,
      source: output.source,
      sensitive: outputSensitivity(output, bundle),
    })),
    sees,
  };
}

function condition(when: NonNullable<Step['when']>, scope: Scope, delimiters: Bundle['delimiters']): Late {
  return when.value === undefined ? toLate(when.text, scope, delimiters) : { value: when.value };
}

/** "A step output is sensitive if it says so, else as the bundle's output of that name, else yes." */
function outputSensitivity(
  output: { readonly name: string; readonly sensitive?: boolean },
  bundle: Bundle,
): boolean {
  return output.sensitive ?? bundle.outputs.find((other) => other.name === output.name)?.sensitive ?? true;
}

function textsOf(step: Step): readonly string[] {
  if (step.body.kind === 'mixin') return [];
  const { command } = step.body;
  const own =
    command.kind === 'command'
      ? command.argv.map((item) => item.text)
      : command.kind === 'args'
        ? command.args.map((item) => item.text)
        : command.kind === 'run'
          ? [command.script.text]
          : command.kind === 'with'
            ? stringsOf(command.values.value)
            : [];
  return [
    step.description.text,
    ...own,
    ...(step.body.dir === undefined ? [] : [step.body.dir.text]),
    ...[...step.body.env.values()].map((item) => item.text),
    ...(step.when === undefined ? [] : [step.when.text]),
  ];
}

function cellsOf(name: string, step: Step, context: StepContext): readonly (Cell | undefined)[] {
  if (step.matrix === undefined) return [undefined];
  const { delimiters } = context.request.bundle;
  const scope = stepScope(context.shared, {
    env: { kind: 'names', names: new Map(), open: false },
    cell: undefined,
  });
  const axes = new Map<string, readonly Json[]>();
  for (const [axis, tree] of step.matrix) {
    const values = mapStrings(tree.value, (text) => planTimeValue(name, text, { scope, delimiters }));
    if (!Array.isArray(values)) {
      throw planError('MATRIX_INVALID', `step ${name}: matrix ${axis} is no list`, {
        hint: 'give a list, or one expression that is a list',
      });
    }
    axes.set(axis, values);
  }
  return matrixCells(name, axes);
}

function planTimeValue(
  step: string,
  text: string,
  { scope, delimiters }: { scope: Scope; delimiters: Bundle['delimiters'] },
): Json {
  const result = evaluate(parseTemplate(text, { delimiters }), scope);
  if (!result.sensitive) return result.value;
  throw planError('MATRIX_INVALID', `step ${step}: a matrix value is sensitive, and cell names are shown`, {
    hint: 'use a value that is not sensitive',
  });
}

function stepId(name: string, cell: Cell | undefined): string {
  return cell === undefined ? name : `${name}[${cell.key}]`;
}

function stepOutputs(
  named: readonly NamedStep[],
  bundle: Bundle,
): ReadonlyMap<string, { readonly step: string; readonly sensitive: boolean }> {
  const found = new Map<string, { step: string; sensitive: boolean }>();
  for (const { name, step } of named) {
    if (step.body.kind === 'mixin') continue;
    for (const output of step.body.outputs) {
      const sensitive = outputSensitivity(output, bundle) || found.get(output.name)?.sensitive === true;
      found.set(output.name, { step: name, sensitive });
    }
  }
  return found;
}

function planParameter(
  parameter: Bundle['parameters'][number],
  known: KnownValue | undefined,
): PlanParameter {
  const { name, sensitive, isFile, env, path } = parameter;
  const location = { ...(env === undefined ? {} : { env }), ...(path === undefined ? {} : { path }) };
  const shown = known !== undefined && !sensitive ? { value: known.json } : {};
  return { name, sensitive, isFile, ...location, ...shown, set: known !== undefined };
}

function planImage(image: InvocationImage, pinned: PinnedImage): PlanImage {
  return {
    image: pinned,
    home: image.home,
    workspace: image.workspace,
    network: image.network,
    docker: image.docker,
    privileged: false,
    ...(image.user === undefined ? {} : { user: image.user }),
    resources: image.resources,
    volumes: image.volumes,
  };
}

function referenced(bundle: Bundle, digests: Readonly<Record<string, string>>): Plan['referencedImages'] {
  return Object.fromEntries(
    bundle.images.map((image) => {
      const { key, span: _, digest, ...rest } = image;
      const pinned = digests[key] ?? digest ?? '';
      return [key, { ...rest, tag: image.tag ?? '', digest: pinned } as Readonly<Record<string, Json>>];
    }),
  );
}

function planState(bundle: Bundle): PlanState {
  if (bundle.state === undefined) return { kind: 'changes', maxBytes: mostStateBytes };
  return bundle.state.length === 0 ? { kind: 'off' } : { kind: 'paths', paths: bundle.state };
}

function actionSteps(bundle: Bundle, action: string): readonly Step[] {
  const steps = bundle.actions.get(action);
  if (steps !== undefined) return steps;
  // Only uninstall may be undeclared: there is then nothing to run (docs/bundle.md).
  if (action === 'uninstall') return [];
  throw planError('ACTION_UNKNOWN', `the bundle ${bundle.name} has no action ${action}`, {
    hint: `it has ${[...bundle.actions.keys()].join(', ') || 'none'}`,
    place: { file: bundle.file },
  });
}

function declared(bundle: Bundle, name: string): InvocationImage {
  const image = bundle.invocationImages.find((candidate) => candidate.name === name);
  if (image === undefined) throw new Error(`no invocation image ${name}: the bundle was not linted`);
  return image;
}

function needsMigration(bundle: Bundle, action: string, mixin: string): Error {
  return planError(
    'ACTION_NEEDS_MIGRATION',
    `${action} of ${bundle.name} has steps of the mixin ${mixin}; running those comes with migration`,
    {
      hint: 'rewrite the step with `invoke:` and an invocation image that has the tool',
      place: { file: bundle.file },
    },
  );
}
