import { didYouMean } from '../document/index.ts';
import { own } from '../kernel/index.ts';
import type { Plan } from '../plan/index.ts';
import { allowedSources, loadSecrets } from '../secrets/index.ts';
import { installationError } from './errors.ts';
import type { ActionDeps, ActionRequest } from './types.ts';

/**
 * The bytes of the credentials that steps of the plan see; others are not even asked for. Sources come from flags
 * and the user's configuration only (docs/security.md, "Where power comes from").
 *
 * @throws CREDENTIAL_UNKNOWN, CREDENTIAL_MISSING and those of the sources
 */
export async function resolveCredentials(
  request: ActionRequest,
  deps: ActionDeps,
  plan: Plan,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const names = plan.credentials.map((credential) => credential.name);
  for (const name of Object.keys(request.credentials)) {
    if (names.includes(name)) continue;
    const near = didYouMean(name, names);
    throw installationError(
      'CREDENTIAL_UNKNOWN',
      `${plan.action} of ${plan.bundle.name} takes no credential ${name}`,
      {
        hint: near === undefined ? `it takes ${names.join(', ') || 'none'}` : `did you mean ${near}?`,
      },
    );
  }
  const seen = new Set(plan.steps.flatMap((step) => step.sees.credentials));
  const resolved = new Map<string, Uint8Array>();
  const missing: string[] = [];
  for (const credential of plan.credentials) {
    if (!seen.has(credential.name)) continue;
    const flagged = own(request.credentials, credential.name);
    const source = flagged ?? own(deps.configuredCredentials, credential.name);
    if (source === undefined) {
      if (credential.required) missing.push(credential.name);
      continue;
    }
    const { resolveCredential } = await loadSecrets();
    const bytes = await resolveCredential(source, {
      name: credential.name,
      env: deps.environment,
      signal: deps.signal,
      allowed: allowedSources(flagged === undefined ? 'configuration' : 'flag'),
    });
    resolved.set(credential.name, bytes);
  }
  if (missing.length > 0) {
    throw installationError(
      'CREDENTIAL_MISSING',
      `${plan.action} of ${plan.bundle.name} needs the credential${missing.length === 1 ? '' : 's'} ${missing.join(', ')}`,
      {
        hint: `say where from: ${missing.map((name) => `--credential ${name}=env:VARIABLE`).join(' ')} (or path:FILE, command:CMD)`,
      },
    );
  }
  return resolved;
}
