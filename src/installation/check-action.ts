import { formatLock } from '../images/index.ts';
import type { Digest } from '../oci/index.ts';
import { createDigester } from '../oci/names/index.ts';
import { checkGivenValues, type Plan } from '../plan/index.ts';
import type { Installation } from '../state/index.ts';
import { bundleArchive, listBundleFiles } from './bundle-files.ts';
import type { LoadedBundle } from './bundle-source.ts';
import { resolveCredentials } from './credentials.ts';
import { installationError } from './errors.ts';
import { type PlannedAction, planAction } from './plan-action.ts';
import { type ResumedRun, resumedRun } from './resume.ts';
import { checkAllowed, checkExists } from './rules.ts';
import type { ActionDeps, ActionRequest } from './types.ts';

export interface AllowedAction {
  readonly before: Installation | undefined;
  readonly installationId: string;
  readonly digest: Digest;
  readonly resumed: ResumedRun | undefined;
  readonly planned: PlannedAction;
}

/**
 * The plan of an action that may run on the installation as it is. Nothing on it changes.
 *
 * @throws what says that the action may not run now, or has no plan
 */
export async function planAllowed(
  request: ActionRequest,
  deps: ActionDeps,
  { loaded, runId }: { readonly loaded: LoadedBundle; readonly runId: string },
): Promise<AllowedAction> {
  const before = await deps.state.getInstallation(request.key);
  const declared = loaded.bundle.customActions.find((action) => action.name === request.action);
  const resumed = request.resume ? await resumedRun(request, deps, before) : undefined;
  if (request.only !== undefined) {
    checkExists(before, request.key.name, `step run ${request.only}`);
  } else if (resumed === undefined) {
    checkAllowed(before, request.key.name, {
      action: request.action,
      modifies: declared?.modifies ?? true,
      stateless: declared?.stateless ?? false,
      force: request.force,
    });
  }
  const installationId = before?.id ?? runId;
  const digest = await bundleDigest(loaded, request);
  const planned = await planAction(request, deps, {
    loaded,
    installation: before,
    installationId,
    digest,
    resumedRuns: resumed?.resumedRuns ?? [],
  });
  return { before, installationId, digest, resumed, planned };
}

/**
 * The last that can be known before anything starts: consents, what a resumed run was, credentials, and whether each
 * step's process can be handed what it is given.
 *
 * @returns the credentials
 * @throws CONSENT_MISSING, RESUME_CHANGED, RESUME_UNKNOWN_STEP, those of credentials and of values
 */
export async function checkReady(
  request: ActionRequest,
  deps: ActionDeps,
  { resumed, planned }: Pick<AllowedAction, 'resumed' | 'planned'>,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const { plan, parameters, remembered } = planned;
  checkConsents(plan);
  resumed?.check(plan, remembered);
  const credentials = await resolveCredentials(request, deps, plan);
  checkGivenValues(plan, { parameters, credentials });
  return credentials;
}

/** Digest of the bundle's files with its lock: what has to be equal for a resumed run, and for state to fit. */
async function bundleDigest(loaded: LoadedBundle, request: ActionRequest): Promise<Digest> {
  const digester = createDigester();
  const files = await listBundleFiles(request.source.directory);
  // Times are no content.
  const timeless = files.map((file) => ({ ...file, mtimeMs: 0 }));
  for await (const chunk of bundleArchive(request.source.directory, timeless)) digester.update(chunk);
  digester.update(new TextEncoder().encode(formatLock(loaded.lock)));
  return digester.digest();
}

function checkConsents(plan: Plan): void {
  const missing = plan.consents.filter((consent) => !consent.granted);
  const first = missing[0];
  if (first === undefined) return;
  const flag = {
    docker: '--allow-docker-host-access',
    'host-network': '--allow-host-network',
    privileged: '--allow-privileged',
  }[first.kind];
  throw installationError(
    'CONSENT_MISSING',
    `step${first.steps.length === 1 ? '' : 's'} ${first.steps.join(', ')} of image ${first.image} want ${first.kind} (${first.meaning}), which was not granted`,
    {
      hint: `grant it with ${flag}=${first.image}, or lastingly in your configuration under \`consents\``,
      details: { consents: missing },
    },
  );
}
