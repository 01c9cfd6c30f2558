import { late, names, type Scope, type ScopeNode, secret, value } from '../document/expression/index.ts';
import type { ImageRunConfig, PinnedImage } from '../oci/index.ts';
import type { Known } from './known.ts';
import type { Plan, PlanCredential, PlanParameter, Visibility } from './types.ts';

const dockerPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** What every step is told of its run (docs/bundle.md, B64). */
const fromRun = [
  'CNAB_ACTION',
  'CNAB_INSTALLATION_NAME',
  'CNAB_BUNDLE_NAME',
  'CNAB_BUNDLE_VERSION',
  'CNAB_REVISION',
  'CNAB_CLAIMS_VERSION',
  'PORTER_INSTALLATION_NAMESPACE',
  'PORTER_INSTALLATION_NAME',
  'PORTER_INSTALLATION_ID',
  'PORTER_VERBOSITY',
] as const;

/** The image's environment as a record, PATH filled in as Docker does. */
export function imageEnvironment(config: ImageRunConfig): Record<string, string> {
  const env: Record<string, string> = { PATH: dockerPath };
  for (const entry of config.env) {
    const equals = entry.indexOf('=');
    if (equals > 0) env[entry.slice(0, equals)] = entry.slice(equals + 1);
  }
  return env;
}

/** The values of the names that a plan has as late ones; they win over the image's. */
export function runEnvironment(
  { action, bundle, installation: { namespace, name } }: Plan,
  known: Known,
): Record<(typeof fromRun)[number], string> {
  return {
    CNAB_ACTION: action,
    CNAB_INSTALLATION_NAME: namespace === '' ? name : `${namespace}/${name}`,
    CNAB_BUNDLE_NAME: bundle.name,
    CNAB_BUNDLE_VERSION: bundle.version,
    CNAB_REVISION: known.revision,
    CNAB_CLAIMS_VERSION: '1.0.0-DRAFT+b5ed2f3',
    PORTER_INSTALLATION_NAMESPACE: namespace,
    PORTER_INSTALLATION_NAME: name,
    PORTER_INSTALLATION_ID: known.installationId,
    PORTER_VERBOSITY: 'info',
  };
}

/** `env.NAME` at plan time: the step's own container environment, never the host's. */
export function environmentScope(
  image: PinnedImage,
  inputs: {
    readonly parameters: readonly PlanParameter[];
    readonly credentials: readonly PlanCredential[];
    readonly sees: Visibility;
  },
): Scope {
  const nodes = new Map<string, ScopeNode>();
  for (const [name, text] of Object.entries(imageEnvironment(image.config))) nodes.set(name, value(text));
  // Of an image with a shared home, the run sets HOME too.
  for (const name of [...fromRun, 'HOME']) nodes.set(name, late(`environment ${name}`));
  for (const parameter of inputs.parameters) {
    if (parameter.env === undefined || !inputs.sees.parameters.includes(parameter.name)) continue;
    nodes.set(
      parameter.env,
      parameter.sensitive ? secret(`parameter ${parameter.name}`) : late(`parameter ${parameter.name}`),
    );
  }
  for (const credential of inputs.credentials) {
    if (credential.env === undefined || !inputs.sees.credentials.includes(credential.name)) continue;
    nodes.set(credential.env, secret(`credential ${credential.name}`));
  }
  return names(nodes);
}
