import { loadBundle } from '../bundle/index.ts';
import type { Json } from '../document/index.ts';
import { pinImages, pinReferences, readInterface } from '../images/index.ts';
import type { Digest, PinnedImage } from '../oci/index.ts';
import { type KnownValue, makePlan, type Plan, usedImages } from '../plan/index.ts';
import type { Installation, StoredValue } from '../state/index.ts';
import type { LoadedBundle } from './bundle-source.ts';
import { ensureLock } from './ensure-lock.ts';
import { installationError } from './errors.ts';
import { knownOutputs } from './outputs.ts';
import { resolveParameters } from './parameters.ts';
import { noSuchStep } from './rules.ts';
import type { ActionDeps, ActionRequest } from './types.ts';

export interface PlannedAction {
  readonly plan: Plan;
  readonly parameters: ReadonlyMap<string, KnownValue>;
  readonly remembered: Readonly<Record<string, StoredValue>>;
  readonly outputs: ReadonlyMap<string, KnownValue>;
  readonly cnabBundle: Json;
}

/** From a bundle to its plan: lock, verified images, parameter values, plan. Nothing on the installation changes. */
export async function planAction(
  request: ActionRequest,
  deps: ActionDeps,
  context: {
    readonly loaded: LoadedBundle;
    readonly installation: Installation | undefined;
    readonly installationId: string;
    readonly digest: Digest;
    /** Runs that are resumed: parameters keep the outputs that these began with as their source. */
    readonly resumedRuns: readonly string[];
  },
): Promise<PlannedAction> {
  const { installation, loaded } = context;
  const { bundle } = loaded;
  if (bundle.dependencies.length > 0) {
    const names = bundle.dependencies.map((dependency) => dependency.name).join(', ');
    throw installationError(
      'DEPENDENCIES_LATER',
      `${bundle.name} depends on ${names}; running dependencies is not in this version`,
      {
        hint: 'install those bundles by themselves and hand their outputs over as parameters',
        place: { file: bundle.file },
      },
    );
  }
  const names = usedImages(bundle, request.action);
  const lock = await ensureLock(request, deps, { loaded, names });
  const { checkValue, toCnabBundle } = await loadBundle();
  const outputs = await knownOutputs(deps.state, installation?.id);
  const resolved = resolveParameters({
    bundle,
    action: request.action,
    given: request.parameters,
    remembered: installation?.parameters ?? {},
    outputs:
      context.resumedRuns.length === 0
        ? outputs
        : await knownOutputs(deps.state, installation?.id, context.resumedRuns),
    checkValue,
  });
  const images = await pinImages(
    { bundle, lock, lockFile: request.source.lockFile, names, platform: deps.platform },
    deps.images,
  );
  const plan = makePlan({
    bundle,
    action: request.action,
    installation: { ...request.key, id: context.installationId },
    images,
    referencedDigests: pinReferences({ bundle, lock, lockFile: request.source.lockFile }),
    interfaceCommands: interfaceCommands(images),
    parameters: resolved.values,
    isGranted: (consent) => deps.isGranted({ ...consent, bundle: bundle.name }),
    digest: context.digest,
  });
  return {
    plan: request.only === undefined ? plan : onlyStep(plan, request.only, outputs),
    parameters: resolved.values,
    remembered: resolved.remembered,
    outputs,
    cnabBundle: toCnabBundle(bundle) as Json,
  };
}

function interfaceCommands(images: ReadonlyMap<string, PinnedImage>): ReadonlyMap<string, readonly string[]> {
  return new Map(
    [...images].flatMap(([name, image]) => {
      const command = readInterface(image)?.command;
      return command === undefined ? [] : [[name, command] as const];
    }),
  );
}

/** The plan with one step (all its cells) and nothing to wait for (`step run`). */
function onlyStep(plan: Plan, id: string, outputs: ReadonlyMap<string, KnownValue>): Plan {
  const steps = plan.steps.filter((step) => step.id === id || step.name === id);
  if (steps.length === 0)
    throw noSuchStep(plan, id, `${plan.action} of ${plan.bundle.name} has no step ${id}`);
  const absent = steps.flatMap((step) => step.sees.inputs).find((name) => !outputs.has(name));
  if (absent !== undefined) {
    throw installationError(
      'STEP_NEEDS_OUTPUTS',
      `step ${id} reads the output ${absent}, which no run has made yet`,
      {
        hint: `run ${plan.action} first`,
      },
    );
  }
  const ids = new Set(steps.map((step) => step.id));
  const consents = plan.consents
    .map((consent) => ({ ...consent, steps: consent.steps.filter((step) => ids.has(step)) }))
    .filter((consent) => consent.steps.length > 0);
  return { ...plan, only: id, consents, steps: steps.map((step) => ({ ...step, needs: [] })) };
}
