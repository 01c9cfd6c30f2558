import type { Plan } from '../plan/index.ts';
import type { ActionDeps } from './types.ts';

/** Whether the plan uninstalls; `step run` neither begins nor ends its action. */
export function endsInstallation(plan: Plan): boolean {
  return plan.action === 'uninstall' && plan.only === undefined;
}

/** A successful uninstall leaves the records and nothing else. Of any other action nothing goes. */
export async function removeAfterUninstall(
  plan: Plan,
  installationId: string,
  { state, engine, emit }: Pick<ActionDeps, 'state' | 'engine' | 'emit'>,
): Promise<void> {
  if (!endsInstallation(plan)) return;
  await state.deleteState(installationId);
  await engine.removeVolumes(installationId, { signal: AbortSignal.timeout(60_000), emit });
}
