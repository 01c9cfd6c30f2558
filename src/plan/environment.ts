import { late, names, type Scope, type ScopeNode, secret, value } from '../document/expression/index.ts';
import type { PinnedImage } from '../oci/index.ts';
import { imageEnvironment } from './command.ts';
import type { PlanCredential, PlanParameter, Visibility } from './types.ts';

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
  'HOME',
];

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
  for (const name of fromRun) if (!nodes.has(name)) nodes.set(name, late(`environment ${name}`));
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
