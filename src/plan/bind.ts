import {
  checkProcessString,
  evaluateTree,
  names,
  parseTemplate,
  type Scope,
  type ScopeNode,
  stringify,
  value,
} from '../document/expression/index.ts';
import { renderPrologue } from '../document/expression/shell/index.ts';
import type { Json } from '../document/index.ts';
import type { ContainerFile, ContainerRun } from '../engine/index.ts';
import { imageEnvironment, runEnvironment } from './environment.ts';
import { planError } from './errors.ts';
import {
  containerPath,
  describingFiles,
  inputFiles,
  outputsPath,
  readOnlyFile,
  scriptPath,
  visibleCarriedFiles,
  visibleOutputs,
  visibleParameters,
  workspacePath,
} from './files.ts';
import { inStep } from './in-step.ts';
import type { Known, KnownValue } from './known.ts';
import { type Delimiters, settle, settleText } from './late.ts';
import type { Late, Plan, PlanImage, PlanStep } from './types.ts';

export type BoundStep =
  | { readonly kind: 'skipped'; readonly reason: string }
  | {
      readonly kind: 'run';
      readonly run: ContainerRun;
      /** With sensitive values still as names: it is shown and recorded. */
      readonly description: string;
    };

/**
 * One step with everything known: the container to run, or why it is skipped. Pure; all that `run` calls.
 *
 * @throws errors of expressions, VALUE_NOT_TEXT, CONDITION_INVALID, DIRECTORY_OUTSIDE
 */
export function bind(plan: Plan, step: PlanStep, known: Known): BoundStep {
  return inStep(step.id, () => bound(plan, step, known));
}

function bound(plan: Plan, step: PlanStep, known: Known): BoundStep {
  const image = plan.images[step.image] as PlanImage;
  const base = containerEnvironment(plan, step, { image, known });
  const scope = runScope(plan, step, { known, env: base });
  const { delimiters } = plan;
  if (step.when !== undefined && !conditionOf(step, settle(step.when, scope, delimiters).value))
    return { kind: 'skipped', reason: 'its `when` is false' };
  const { inputs, env, command } = processIn(plan, step, { base, scope });
  const isSensitive = seesSecrets(step, known) || (inputs?.sensitive ?? false);
  const files: readonly ContainerFile[] = [
    ...describingFiles(plan, step, { known, with: inputs?.value }),
    ...inputFiles(step, known),
    ...locatedFiles(plan, step, known),
    ...visibleCarriedFiles(plan, step, known),
    ...command.files,
  ];
  return {
    kind: 'run',
    description: shownText(step.description, scope, delimiters),
    run: {
      containerId: known.containerId,
      image: step.image,
      argv: command.argv,
      env,
      user: image.user ?? image.image.config.user,
      workingDir: workingDirectory(step, settleText(step.dir, scope, delimiters).text),
      workspace: image.workspace,
      home: image.home,
      network: image.network,
      dockerSocket: image.docker,
      privileged: image.privileged,
      resources: image.resources,
      volumes: image.volumes,
      files,
      outputsDir: outputsPath,
      collectPaths: [],
      ...(step.timeoutMs === undefined ? {} : { timeoutMs: step.timeoutMs }),
      graceMs: known.graceMs,
      sensitive: isSensitive,
    },
  };
}

/** Whether what a `when` came to lets the step run. @throws CONDITION_INVALID */
export function conditionOf(step: PlanStep, holds: Json): boolean {
  if (typeof holds === 'boolean') return holds;
  throw planError('CONDITION_INVALID', `step ${step.id}: its \`when\` gave no true or false`, {
    hint: 'compare the value with something',
  });
}

/** As `bind` would make the step's process, and nothing is kept; for `checkGivenValues`. */
export function checkProcess(plan: Plan, step: PlanStep, known: Known): void {
  const image = plan.images[step.image] as PlanImage;
  const base = containerEnvironment(plan, step, { image, known });
  const scope = runScope(plan, step, { known, env: base });
  processIn(plan, step, { base, scope });
  workingDirectory(step, settleText(step.dir, scope, plan.delimiters).text);
}

interface Process {
  readonly inputs: { readonly value: Json; readonly sensitive: boolean } | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly command: { readonly argv: readonly string[]; readonly files: readonly ContainerFile[] };
}

function processIn(
  { delimiters }: Plan,
  step: PlanStep,
  { base, scope }: { readonly base: Environment; readonly scope: Scope },
): Process {
  checkVariables(step, base.values);
  const inputs = stepInputs(step, scope, delimiters);
  const own = { ...inputVariables(inputs?.value), ...stepVariables(step, scope, delimiters) };
  checkVariables(step, own);
  return { inputs, env: { ...base.values, ...own }, command: commandOf(step, scope, delimiters) };
}

function checkVariables(step: PlanStep, variables: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(variables))
    checkProcessString(`${name}=${text}`, `step ${step.id}: environment variable ${name}`);
}

function stepInputs(
  step: PlanStep,
  scope: Scope,
  delimiters: Delimiters,
): { readonly value: Json; readonly sensitive: boolean } | undefined {
  if (step.with === undefined) return undefined;
  return 'value' in step.with
    ? { value: step.with.value, sensitive: false }
    : evaluateTree(step.with.tree, scope, { delimiters });
}

/** Files of parameters and credentials that have a `path`; plain ones below /cnab/app lie in the workspace already. */
function locatedFiles(plan: Plan, step: PlanStep, known: Known): readonly ContainerFile[] {
  const files: ContainerFile[] = [];
  const visible = visibleParameters(step, known);
  for (const parameter of plan.parameters) {
    const found = visible.get(parameter.name);
    if (parameter.path === undefined || found === undefined || isWorkspaceParameter(parameter)) continue;
    files.push(locatedFile(parameter.path, found.bytes, parameter.sensitive));
  }
  for (const credential of plan.credentials) {
    const bytes = known.credentials.get(credential.name);
    if (
      credential.path === undefined ||
      bytes === undefined ||
      !step.sees.credentials.includes(credential.name)
    )
      continue;
    files.push(locatedFile(credential.path, bytes, true));
  }
  return files;
}

/** Written once, before the first step, and then the steps' own (docs/bundle.md). */
export function isWorkspaceParameter(parameter: {
  readonly path?: string;
  readonly sensitive: boolean;
}): boolean {
  const { path, sensitive } = parameter;
  return !sensitive && path !== undefined && containerPath(path).startsWith(`${workspacePath}/`);
}

function locatedFile(path: string, content: Uint8Array, sensitive: boolean): ContainerFile {
  return { path: containerPath(path), content, mode: 0o400, sensitive, readOnly: false };
}

interface Environment {
  readonly values: Readonly<Record<string, string>>;
  readonly sensitive: ReadonlySet<string>;
}

function containerEnvironment(
  plan: Plan,
  step: PlanStep,
  { image, known }: { image: PlanImage; known: Known },
): Environment {
  const values: Record<string, string> = {
    ...imageEnvironment(image.image.config),
    ...(image.home === 'shared' ? { HOME: '/home/nonroot' } : {}),
    ...runEnvironment(plan, known),
  };
  const sensitive = new Set<string>();
  const visible = visibleParameters(step, known);
  for (const parameter of plan.parameters) {
    if (parameter.env === undefined || !step.sees.parameters.includes(parameter.name)) continue;
    // CNAB 1.2: a parameter that was not given is the empty string, whatever its type.
    values[parameter.env] = environmentText(visible.get(parameter.name));
    if (parameter.sensitive) sensitive.add(parameter.env);
  }
  for (const credential of plan.credentials) {
    const bytes = known.credentials.get(credential.name);
    if (
      credential.env === undefined ||
      bytes === undefined ||
      !step.sees.credentials.includes(credential.name)
    )
      continue;
    values[credential.env] = textOf(bytes, `credential ${credential.name}`);
    sensitive.add(credential.env);
  }
  return { values, sensitive };
}

function environmentText(known: KnownValue | undefined): string {
  return known === undefined ? '' : stringify(known.json);
}

function textOf(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw planError('VALUE_NOT_TEXT', `${what} is no UTF-8 text, which an environment variable must be`, {
      hint: 'give it a `path` instead of an `env`',
    });
  }
}

/** As the plan's scope, with values in place of names. */
function runScope(plan: Plan, step: PlanStep, { known, env }: { known: Known; env: Environment }): Scope {
  const { bundle, installation } = plan;
  const parameters = new Map<string, ScopeNode>();
  for (const parameter of plan.parameters) {
    const found = known.parameters.get(parameter.name);
    if (parameter.path !== undefined && parameter.env === undefined)
      parameters.set(parameter.name, value(parameter.path));
    else if (found === undefined)
      parameters.set(parameter.name, {
        kind: 'absent',
        reason: 'the parameter was not given and has no default',
      });
    else parameters.set(parameter.name, value(found.json, { sensitive: parameter.sensitive }));
  }
  const credentials = new Map<string, ScopeNode>();
  for (const credential of plan.credentials) {
    const bytes = known.credentials.get(credential.name);
    if (credential.env === undefined && credential.path !== undefined)
      credentials.set(credential.name, value(credential.path));
    else if (bytes === undefined)
      credentials.set(credential.name, { kind: 'absent', reason: 'the credential was not given' });
    else
      credentials.set(
        credential.name,
        value(textOf(bytes, `credential ${credential.name}`), { sensitive: true }),
      );
  }
  return names({
    bundle: names({
      name: value(bundle.name),
      version: value(bundle.version),
      description: value(bundle.description),
      custom: value(plan.custom),
      parameters: names(parameters),
      credentials: names(credentials),
      outputs: names(outputNodes(plan, known)),
      images: names(
        Object.fromEntries(Object.entries(plan.referencedImages).map(([key, image]) => [key, value(image)])),
      ),
    }),
    installation: names({
      name: value(installation.name),
      namespace: value(installation.namespace),
      id: value(known.installationId),
    }),
    env: names(
      new Map(
        Object.entries(env.values).map(([name, text]) => [
          name,
          value(text, { sensitive: env.sensitive.has(name) }),
        ]),
      ),
    ),
    matrix: names(new Map(Object.entries(step.cell ?? {}).map(([key, item]) => [key, value(item)]))),
  });
}

function outputNodes(plan: Plan, known: Known): ReadonlyMap<string, ScopeNode> {
  const declared = [
    ...plan.outputs.map((output) => output.name),
    ...plan.steps.flatMap((step) => step.outputs.map((output) => output.name)),
  ];
  const nodes = new Map<string, ScopeNode>(
    declared.map((name) => [name, { kind: 'absent', reason: 'no step has written the output yet' }]),
  );
  for (const [name, output] of known.outputs)
    nodes.set(name, value(output.json, { sensitive: output.sensitive }));
  return nodes;
}

function stepVariables(step: PlanStep, scope: Scope, delimiters: Delimiters): Record<string, string> {
  return Object.fromEntries(
    Object.entries(step.env).map(([name, late]) => [name, settleText(late, scope, delimiters).text]),
  );
}

/** `with:` as `INPUT_NAME` (docs/bundle.md, "Interface"). */
function inputVariables(inputs: Json | undefined): Record<string, string> {
  if (typeof inputs !== 'object' || inputs === null || Array.isArray(inputs)) return {};
  return Object.fromEntries(
    Object.entries(inputs).map(([name, item]) => [
      `INPUT_${name.toUpperCase().replace(/[^A-Z0-9_]/g, '_')}`,
      stringify(item as Json),
    ]),
  );
}

function commandOf(
  step: PlanStep,
  scope: Scope,
  delimiters: Delimiters,
): { argv: readonly string[]; files: readonly ContainerFile[] } {
  const { command } = step;
  if (command.kind === 'argv') {
    const argv = command.argv.flatMap((late) => {
      const { value: item } = settle(late, scope, delimiters);
      return Array.isArray(item) ? item.map((part: Json) => stringify(part)) : [stringify(item)];
    });
    argv.forEach((text, at) => {
      checkProcessString(text, `step ${step.id}: argument ${at + 1}`);
    });
    if (argv[0] === undefined || argv[0] === '') {
      throw planError(
        'STEP_NO_COMMAND',
        `step ${step.id}: its command is empty once its expressions are filled in`,
        { hint: 'name a program' },
      );
    }
    return { argv, files: [] };
  }
  const bound = command.bindings.map(({ variable, value: late }) => ({
    variable,
    ...settleText(late, scope, delimiters),
  }));
  const sensitive = bound.some((binding) => binding.sensitive);
  const prologue =
    bound.length === 0 ? '' : renderPrologue(bound.map(({ variable, text }) => ({ variable, value: text })));
  const isExecuted = command.interpreter.length === 0;
  const file = readOnlyFile(
    scriptPath,
    `${command.shebang}${prologue}${command.text}`,
    sensitive,
    isExecuted ? 0o555 : 0o444,
  );
  return { argv: [...command.interpreter, scriptPath], files: [file] };
}

function workingDirectory(step: PlanStep, dir: string): string {
  const relative = dir.startsWith(`${workspacePath}/`) ? dir.slice(workspacePath.length + 1) : dir;
  const parts = relative.split('/').filter((part) => part !== '' && part !== '.');
  if (relative.startsWith('/') || parts.includes('..')) {
    throw planError('DIRECTORY_OUTSIDE', `step ${step.id}: its \`dir\` leads out of ${workspacePath}`, {
      hint: 'name a folder of the bundle, relative to its root',
    });
  }
  return [workspacePath, ...parts].join('/');
}

/** A text for people: what is sensitive stays a name. */
function shownText(late: Late, scope: Scope, delimiters: Delimiters): string {
  const { text, sensitive } = settleText(late, scope, delimiters);
  if (!sensitive || 'value' in late) return text;
  return parseTemplate(late.template, { delimiters })
    .parts.map((part) => (part.kind === 'text' ? part.text : '*******'))
    .join('');
}

function seesSecrets(step: PlanStep, known: Known): boolean {
  if (step.sees.credentials.some((name) => known.credentials.has(name))) return true;
  if ([...visibleParameters(step, known).values()].some((item) => item.sensitive)) return true;
  return (
    [...visibleOutputs(step, known).values()].some((item) => item.sensitive) ||
    step.outputs.some((output) => output.sensitive)
  );
}
