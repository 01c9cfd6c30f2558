import { isDeepStrictEqual } from 'node:util';
import type { Plan } from '../plan/index.ts';
import type { Installation, InstallationKey, Run, StepRecord, StoredValue } from '../state/index.ts';
import { installationError } from './errors.ts';
import { noSuchStep } from './rules.ts';
import type { ActionDeps, ActionRequest } from './types.ts';
import { hasBaseline, removeBaseline } from './workspace.ts';

const keptForMs = 7 * 24 * 60 * 60 * 1000;

export interface ResumedRun {
  readonly runId: string;
  /** It and the runs that it took up again itself: what one of them began, all of them did. */
  readonly resumedRuns: readonly string[];
  /** The run whose workspace is still there; undefined: it is filled anew, with the saved state. */
  readonly workspaceOf: string | undefined;
  /** Steps that stay as they are, by id. */
  readonly finished: ReadonlyMap<string, StepRecord>;
  /** @throws RESUME_CHANGED, RESUME_UNKNOWN_STEP */
  check(plan: Plan, parameters: Readonly<Record<string, StoredValue>>): void;
}

/** The last run of the same verb, taken up again (docs/bundle.md, "Actions and records"). @throws RESUME_NOTHING */
export async function resumedRun(
  request: ActionRequest,
  deps: ActionDeps,
  installation: Installation | undefined,
): Promise<ResumedRun> {
  const runs =
    installation === undefined ? [] : await deps.state.listRuns({ installationId: installation.id });
  const last = runs.findLast((run) => run.action === request.action && !isAlone(run));
  if (last === undefined || last.state === 'succeeded') {
    const why =
      last === undefined
        ? `${request.key.name} has no ${request.action} to resume`
        : `the last ${request.action} of ${request.key.name} succeeded`;
    throw installationError('RESUME_NOTHING', why, { hint: `run it without --resume` });
  }
  const steps = last.steps;
  const finished = new Map(
    steps
      .filter((step) => step.state === 'succeeded' || step.state === 'skipped')
      .map((step) => [step.id, step]),
  );
  const hasBegun = steps.some((step) => step.state !== 'pending');
  return {
    runId: last.id,
    resumedRuns: resumedRunsOf(last, runs),
    workspaceOf: hasBegun ? await keptWorkspace(runs, last, deps) : undefined,
    finished,
    check(plan, parameters) {
      checkRerun(request, plan);
      checkUnchanged(request, last, { plan, parameters, deps });
      checkUnknown(request, plan, steps);
    },
  };
}

function resumedRunsOf(last: Run, runs: readonly Run[]): readonly string[] {
  const ids: string[] = [];
  for (let run: Run | undefined = last; run !== undefined; ) {
    ids.push(run.id);
    const { resumes }: Run = run;
    run = runs.find((one) => one.id === resumes && !ids.includes(one.id));
  }
  return ids;
}

/** `step run` neither begins nor ends its action. */
export function isAlone(run: Run): boolean {
  return (JSON.parse(run.plan) as Plan).only !== undefined;
}

/** A resumed run that could not begin has left the workspace with the run before it. */
async function keptWorkspace(runs: readonly Run[], last: Run, deps: ActionDeps): Promise<string | undefined> {
  for (const run of runs.toReversed()) {
    if (run.action !== last.action || isAlone(run)) continue;
    if (run.state === 'succeeded') return undefined;
    if (run.engine === deps.engine.name && (await hasBaseline(deps.directory, run.id))) return run.id;
  }
  return undefined;
}

function checkRerun(request: ActionRequest, plan: Plan): void {
  const names = new Set(plan.steps.flatMap((step) => [step.id, step.name]));
  const unknown = request.rerun.find((name) => !names.has(name));
  if (unknown === undefined) return;
  throw noSuchStep(
    plan,
    unknown,
    `--rerun ${unknown}: ${plan.action} of ${plan.bundle.name} has no such step`,
  );
}

function checkUnchanged(
  request: ActionRequest,
  last: Run,
  now: { plan: Plan; parameters: Readonly<Record<string, StoredValue>>; deps: Pick<ActionDeps, 'emit'> },
): void {
  const before = JSON.parse(last.plan) as Plan;
  const changed = planDifferences(before, now.plan);
  for (const name of new Set([...Object.keys(last.parameters), ...Object.keys(now.parameters)])) {
    if (!isDeepStrictEqual(last.parameters[name]?.value, now.parameters[name]?.value))
      changed.push(`parameter ${name}`);
  }
  if (changed.length === 0) return;
  const message = `since run ${last.id} changed: ${changed.join(', ')}`;
  if (request.replan) {
    now.deps.emit({ type: 'notice', code: 'plan-changed', message });
    return;
  }
  throw installationError('RESUME_CHANGED', message, {
    hint: 'undo the change, start anew without --resume, or go on with the new plan: --resume --replan',
    details: { changed },
  });
}

/** Parts of two plans that differ, in words; consents and the installation's own name do not count. */
function planDifferences(before: Plan, after: Plan): string[] {
  const changed: string[] = [];
  if (before.bundle.digest !== after.bundle.digest) changed.push("the bundle's files or lock");
  for (const name of new Set([...Object.keys(before.images), ...Object.keys(after.images)])) {
    if (before.images[name]?.image.digest !== after.images[name]?.image.digest) changed.push(`image ${name}`);
  }
  const ids = new Set([...before.steps, ...after.steps].map((step) => step.id));
  for (const id of ids) {
    const [old, now] = [before, after].map((plan) => plan.steps.find((step) => step.id === id));
    if (!isDeepStrictEqual(old, now))
      changed.push(
        old === undefined ? `step ${id} is new` : now === undefined ? `step ${id} is gone` : `step ${id}`,
      );
  }
  return changed;
}

function checkUnknown(request: ActionRequest, plan: Plan, steps: readonly StepRecord[]): void {
  for (const record of steps) {
    if (record.state !== 'unknown') continue;
    const step = plan.steps.find((candidate) => candidate.id === record.id);
    if (
      step === undefined ||
      step.idempotent ||
      request.rerun.includes(step.id) ||
      request.rerun.includes(step.name)
    )
      continue;
    throw installationError(
      'RESUME_UNKNOWN_STEP',
      `nothing tells how step ${record.id} ended, and it does not say \`idempotent: true\``,
      {
        hint: `look at what it changed; if it may run again: --resume --rerun ${record.id}`,
      },
    );
  }
}

/** Workspaces of runs that did not succeed are kept for `--resume`: until one succeeds, or for 7 days. */
export async function sweepKeptWorkspaces(
  key: InstallationKey,
  deps: ActionDeps,
  now: { readonly succeeded: boolean; readonly runId: string },
): Promise<void> {
  const installation = await deps.state.getInstallation(key);
  if (installation === undefined) return;
  const runs = await deps.state.listRuns({ installationId: installation.id });
  const oldest = deps.now().getTime() - keptForMs;
  for (const run of runs) {
    if (run.id === now.runId || run.state === 'running' || run.state === 'succeeded') continue;
    if (run.engine !== deps.engine.name) continue;
    if (!now.succeeded && Date.parse(run.finished ?? run.created) > oldest) continue;
    if (!(await hasBaseline(deps.directory, run.id))) continue;
    await deps.engine.sweep(run.id, { signal: AbortSignal.timeout(60_000), emit: deps.emit });
    await removeBaseline(deps.directory, run.id);
  }
}
