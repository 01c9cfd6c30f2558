import { didYouMean } from '../../document/index.ts';
import type { Event } from '../../kernel/index.ts';
import {
  type Installation,
  type InstallationKey,
  type ManagedStateStore,
  type Run,
  stateError,
} from '../../state/index.ts';

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

/** Of a run that goes on by its record and that nobody works on any more. */
export function processGone(runId: string): Event & { readonly code: string; readonly message: string } {
  return {
    type: 'warning',
    code: 'run-abandoned',
    message: `the process of run ${runId} is gone; the next action finds out how the run ended before it starts`,
  };
}
