import { posix } from 'node:path';
import type { Json } from '../document/index.ts';
import type { ContainerFile } from '../engine/index.ts';
import type { Known, KnownValue } from './known.ts';
import type { Plan, PlanStep } from './types.ts';

export const workspacePath = '/cnab/app';
export const outputsPath = '/cnab/app/outputs';
export const inputsPath = '/cnab/app/inputs';
export const scriptPath = '/cnab/step';

/** An output's path as the container sees it. */
export function containerPath(path: string): string {
  const whole = posix.normalize(path.startsWith('/') ? path : `${workspacePath}/${path}`);
  return whole.length > 1 && whole.endsWith('/') ? whole.slice(0, -1) : whole;
}

/** Outputs that a step sees: the plain ones, and the sensitive ones that it names or uses. */
export function visibleOutputs(step: PlanStep, known: Known): ReadonlyMap<string, KnownValue> {
  const named = new Set([...step.sees.outputs, ...step.sees.inputs]);
  return new Map([...known.outputs].filter(([name, value]) => !value.sensitive || named.has(name)));
}

/**
 * Files outside the workspace that earlier containers left. One that is a sensitive output goes only to steps that
 * may see the output.
 */
export function visibleCarriedFiles(plan: Plan, step: PlanStep, known: Known): readonly ContainerFile[] {
  const named = new Set([...step.sees.outputs, ...step.sees.inputs]);
  const hidden = new Set(
    plan.outputs
      .filter((output) => output.sensitive && !named.has(output.name))
      .flatMap(({ path }) => (path === undefined ? [] : [containerPath(path)])),
  );
  return known.carriedFiles.filter(({ path }) => !hidden.has(path));
}

export function visibleParameters(step: PlanStep, known: Known): ReadonlyMap<string, KnownValue> {
  const named = new Set(step.sees.parameters);
  return new Map([...known.parameters].filter(([name]) => named.has(name)));
}

/**
 * The files that tell a step where it stands: porter.yaml, bundle.json, claim.json and context.json, each mounted by
 * itself and made for this step: what it may not see is not in them.
 */
export function describingFiles(
  plan: Plan,
  step: PlanStep,
  context: { known: Known; with: Json | undefined },
): readonly ContainerFile[] {
  const { known } = context;
  const parameters = visibleParameters(step, known);
  const hasSecret = [...parameters.values(), ...visibleOutputs(step, known).values()].some(
    (value) => value.sensitive,
  );
  return [
    readOnlyFile('/cnab/app/porter.yaml', known.manifest, false),
    readOnlyFile('/cnab/bundle.json', JSON.stringify(known.cnabBundle), false),
    readOnlyFile('/cnab/claim.json', JSON.stringify(claim(plan, parameters, known)), hasSecret),
    readOnlyFile('/cnab/context.json', JSON.stringify(stepContext(plan, step, context), null, 2), hasSecret),
  ];
}

/** `inputs:` as files below /cnab/app/inputs. */
export function inputFiles(step: PlanStep, known: Known): readonly ContainerFile[] {
  return step.sees.inputs.flatMap((name) => {
    const value = known.outputs.get(name);
    if (value === undefined) return [];
    return [
      {
        path: `${inputsPath}/${name}`,
        content: value.bytes,
        mode: 0o444,
        sensitive: value.sensitive,
        readOnly: true,
      },
    ];
  });
}

export function readOnlyFile(
  path: string,
  content: string | Uint8Array,
  sensitive: boolean,
  mode = 0o444,
): ContainerFile {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  return { path, content: bytes, mode, sensitive, readOnly: true };
}

/** cnab-spec 400, claim; credentials are never in it. */
function claim(plan: Plan, parameters: ReadonlyMap<string, KnownValue>, known: Known): Json {
  return {
    schemaVersion: '1.0.0-DRAFT+b5ed2f3',
    id: known.runId,
    installation: plan.installation.name,
    revision: known.revision,
    action: plan.action,
    bundle: known.cnabBundle,
    parameters: jsonValues(parameters),
  };
}

function stepContext(
  plan: Plan,
  step: PlanStep,
  { known, with: inputs }: { known: Known; with: Json | undefined },
): Json {
  const pinned = plan.images[step.image];
  return {
    bundle: {
      name: plan.bundle.name,
      version: plan.bundle.version,
      description: plan.bundle.description,
      custom: plan.custom,
      images: plan.referencedImages,
    },
    installation: { ...plan.installation, id: known.installationId },
    run: { id: known.runId, revision: known.revision },
    action: plan.action,
    step: {
      id: step.id,
      attempt: known.attempt,
      image: pinned === undefined ? null : { reference: pinned.image.reference, digest: pinned.image.digest },
      ...(inputs === undefined ? {} : { with: inputs }),
      ...(step.cell === undefined ? {} : { matrix: step.cell }),
    },
    parameters: jsonValues(visibleParameters(step, known)),
    outputs: jsonValues(visibleOutputs(step, known)),
    invocationImages: Object.fromEntries(
      Object.entries(plan.images).map(([name, { image }]) => [
        name,
        { reference: image.reference, digest: image.digest, manifestDigest: image.manifestDigest },
      ]),
    ),
  };
}

function jsonValues(values: ReadonlyMap<string, KnownValue>): Readonly<Record<string, Json>> {
  return Object.fromEntries([...values].map(([name, value]) => [name, value.json]));
}
