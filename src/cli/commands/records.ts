import { didYouMean } from '../../document/index.ts';
import { isOpen } from '../../installation/index.ts';
import type { Event } from '../../kernel/index.ts';
import {
  type Installation,
  type InstallationKey,
  type ManagedStateStore,
  type Run,
  stateError,
} from '../../state/index.ts';
import type { ShownInstallation } from '../render/installation.ts';
import type { ShownRun } from '../render/run.ts';

/** @throws STATE_NOT_FOUND with the nearest name there is, and other namespaces that have one of this name */
export async function findInstallation(
  state: ManagedStateStore,
  key: InstallationKey,
): Promise<Installation> {
  const found = await state.getInstallation(key);
  if (found !== undefined) {
    return found;
  }
  const all = await state.listInstallations({});
  const elsewhere = all.filter((other) => other.name === key.name);
  const near = didYouMean(
    key.name,
    all.filter((other) => other.namespace === key.namespace).map((other) => other.name),
  );
  const where = key.namespace === '' ? '' : ` in namespace ${key.namespace}`;
  const [other] = elsewhere;
  const hint =
    other === undefined
      ? near === undefined
        ? 'run skycap installation list --all-namespaces'
        : `did you mean ${near}?`
      : other.namespace === ''
        ? 'there is one in the global namespace: add --namespace ""'
        : `there is one in namespace ${other.namespace}: add -n ${other.namespace}`;
  throw stateError('STATE_NOT_FOUND', `there is no installation ${key.name}${where}`, { hint });
}

/** @throws STATE_NOT_FOUND */
export async function findRun(state: ManagedStateStore, id: string): Promise<Run> {
  const found = await state.getRun(id);
  if (found === undefined) {
    throw stateError('STATE_NOT_FOUND', `there is no run ${id}`, {
      hint: 'run skycap run list to see all runs',
    });
  }
  return found;
}

/** The run that `--run` names, else the last of the installation. */
export async function lastRunOf(state: ManagedStateStore, key: InstallationKey): Promise<Run> {
  const installation = await findInstallation(state, key);
  const last = (await state.listRuns({ installationId: installation.id })).at(-1);
  if (last === undefined) {
    throw stateError('STATE_NOT_FOUND', `installation ${key.name} has no run`, {
      hint: `run skycap install ${key.name}`,
    });
  }
  return last;
}

/** What goes on by its record is looked at once more: its process may be gone. Nothing is changed. */
export async function shownRun(state: ManagedStateStore, run: Run): Promise<ShownRun> {
  if (!isOpen(run) || (await isHeld(state, run))) return run;
  // It may have ended before we asked who holds it.
  const last = (await state.getRun(run.id)) ?? run;
  if (!isOpen(last)) return last;
  return { ...last, state: 'interrupted', message: processGone(run.id).message };
}

/** The same of an installation: what its last action came to. */
export async function shownInstallation(
  state: ManagedStateStore,
  installation: Installation,
): Promise<ShownInstallation> {
  const { runId } = installation.status;
  const run = runId === undefined || !goesOn(installation) ? undefined : await state.getRun(runId);
  if (run === undefined) return installation;
  const { state: resultStatus } = await shownRun(state, run);
  if (resultStatus === run.state && isOpen(run)) return installation;
  const last = (await state.getInstallation(installation)) ?? installation;
  return goesOn(last) ? { ...last, status: { ...last.status, resultStatus } } : last;
}

function goesOn({ status: { resultStatus } }: Installation): boolean {
  return resultStatus === 'running' || resultStatus === 'pending';
}

async function isHeld(state: ManagedStateStore, run: Run): Promise<boolean> {
  const holders = await state.holders({ namespace: run.namespace, name: run.installation });
  return holders.some((holder) => holder.runId === run.id);
}

/** Of a run that goes on by its record and that nobody works on any more. */
export function processGone(runId: string): Event & { readonly code: string; readonly message: string } {
  return {
    type: 'warning',
    code: 'run-abandoned',
    message: `the process of run ${runId} is gone; the next action finds out how the run ended before it starts`,
  };
}
