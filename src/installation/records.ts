import type { Plan } from '../plan/index.ts';
import type { Installation, Run } from '../state/index.ts';
import type { LoadedBundle } from './bundle-source.ts';
import { isAlone } from './resume.ts';
import type { ActionDeps, ActionRequest } from './types.ts';

/** The installation as its last run left it. `step run` makes nothing installed or uninstalled. */
export function endedInstallation(installation: Installation, run: Run, at: Date): Installation {
  const now = at.toISOString();
  const succeeded = run.state === 'succeeded' && !isAlone(run);
  const { installed, uninstalled } = installation.status;
  return {
    ...installation,
    status: {
      ...installation.status,
      modified: now,
      resultStatus: run.state,
      ...(succeeded
        ? {
            ...(installation.bundle.version === undefined
              ? {}
              : { bundleVersion: installation.bundle.version }),
            bundleDigest: run.bundleDigest,
          }
        : {}),
      ...(succeeded && run.action === 'install' ? { installed: after(uninstalled, at, 1) } : {}),
      ...(succeeded && run.action === 'uninstall' ? { uninstalled: after(installed, at, 0) } : {}),
    },
  };
}

/** Whether it is installed is which of two times is later, and the clock may have been set back since the first. */
function after(earlier: string | undefined, at: Date, byMs: number): string {
  const least = earlier === undefined ? Number.NaN : Date.parse(earlier) + byMs;
  return new Date(least > at.getTime() ? least : at).toISOString();
}

/** What an action that modifies nothing works on: the revision of the last one that did (CNAB, claims). */
export async function lastRevision(
  installation: Installation | undefined,
  deps: ActionDeps,
  otherwise: string,
): Promise<string> {
  const id = installation?.status.runId;
  return (id === undefined ? undefined : (await deps.state.getRun(id))?.revision) ?? otherwise;
}

/** The bundle that the saved state was saved under: that of the run which saved it, failed or not. */
export async function stateDigest(
  installation: Installation | undefined,
  { state }: Pick<ActionDeps, 'state'>,
): Promise<string | undefined> {
  if (installation === undefined) return undefined;
  const runId = await state.stateRun(installation.id);
  const run = runId === undefined ? undefined : await state.getRun(runId);
  return run?.bundleDigest ?? installation.status.bundleDigest;
}

/** After a fault of the engine or of ours: no step goes on, and nobody has to look for its container. */
export async function closeSteps(run: Run, deps: Pick<ActionDeps, 'state'>): Promise<Run> {
  const steps = run.steps.map((step) =>
    step.state === 'running' ? { ...step, state: 'errored' as const } : step,
  );
  for (const intent of await deps.state.listIntents({ namespace: run.namespace, name: run.installation })) {
    if (intent.runId === run.id) await deps.state.clearIntent(intent.containerId);
  }
  return { ...run, steps };
}

export function startedEvent(plan: Plan, { runId, engine }: { runId: string; engine: string }) {
  return {
    type: 'run.started' as const,
    runId,
    namespace: plan.installation.namespace,
    installation: plan.installation.name,
    action: plan.action,
    bundle: plan.bundle.name,
    version: plan.bundle.version,
    engine,
    steps: plan.steps.map((step) => ({
      id: step.id,
      description: 'value' in step.description ? String(step.description.value) : step.description.template,
      image: plan.images[step.image]?.image.reference ?? step.image,
    })),
  };
}

export function startedInstallation(
  request: ActionRequest,
  context: {
    readonly before: Installation | undefined;
    readonly installationId: string;
    readonly loaded: LoadedBundle;
    readonly plan: Plan;
    readonly remembered: Installation['parameters'];
    readonly runId: string;
    readonly started: string;
  },
): Installation {
  const { before, plan, started, runId } = context;
  const sources = Object.fromEntries(
    Object.entries(request.credentials)
      .filter(([, source]) => source.kind !== 'value')
      .map(([name, source]) => [name, source.kind]),
  );
  return {
    id: context.installationId,
    ...request.key,
    labels: { ...before?.labels, ...request.labels },
    custom: before?.custom ?? {},
    bundle: { version: plan.bundle.version, digest: plan.bundle.digest, file: request.source.file },
    parameters: context.remembered,
    credentialSources: { ...before?.credentialSources, ...sources },
    status: {
      ...before?.status,
      created: before?.status.created ?? started,
      modified: started,
      runId,
      resultId: runId,
      action: request.action,
      resultStatus: 'running',
    },
  };
}
