import type { Bundle } from '../bundle/index.ts';
import {
  absent,
  denied,
  late,
  names,
  type Scope,
  type ScopeNode,
  secret,
  value,
} from '../document/expression/index.ts';
import type { Json } from '../document/index.ts';
import type { PlanCredential, PlanOutput, PlanParameter } from './types.ts';

/** What expressions of a step may read when the plan is made; only values that may stand in a plan are values. */
export interface PlanScopeParts {
  readonly bundle: Bundle;
  readonly action: string;
  readonly installation: { readonly namespace: string; readonly name: string; readonly id: string };
  readonly parameters: readonly PlanParameter[];
  readonly credentials: readonly PlanCredential[];
  readonly outputs: readonly PlanOutput[];
  /** Outputs that steps declare, by name: who makes it and whether it is sensitive. */
  readonly stepOutputs: ReadonlyMap<string, { readonly step: string; readonly sensitive: boolean }>;
  readonly images: Readonly<Record<string, Readonly<Record<string, Json>>>>;
}

/** The scope that all steps of an action share; `stepScope` adds what is a step's own. */
export function planScope(parts: PlanScopeParts): ReadonlyMap<string, ScopeNode> {
  const { bundle, installation } = parts;
  return new Map<string, ScopeNode>([
    [
      'bundle',
      names({
        name: value(bundle.name),
        version: value(bundle.version),
        description: value(bundle.description),
        installerImage: absent('a bundle of invocation images has no installer image'),
        custom: value(bundle.custom),
        parameters: names(parameterNodes(parts)),
        credentials: names(credentialNodes(parts)),
        outputs: names(outputNodes(parts)),
        images: names(
          Object.fromEntries(Object.entries(parts.images).map(([key, image]) => [key, value(image)])),
        ),
        dependencies: names({}),
      }),
    ],
    [
      'installation',
      names({
        name: value(installation.name),
        namespace: value(installation.namespace),
        id: value(installation.id),
      }),
    ],
    ['outputs', denied('it belongs to the outputs of a dependency', 'write bundle.outputs.NAME')],
  ]);
}

export function stepScope(
  shared: ReadonlyMap<string, ScopeNode>,
  own: { readonly env: Scope; readonly cell: Readonly<Record<string, Json>> | undefined },
): Scope {
  const matrix: ScopeNode =
    own.cell === undefined
      ? denied('the step has no matrix', 'declare `matrix:` on the step')
      : names(Object.fromEntries(Object.entries(own.cell).map(([key, item]) => [key, value(item)])));
  return names(new Map([...shared, ['env', own.env], ['matrix', matrix]]));
}

function parameterNodes(parts: PlanScopeParts): ReadonlyMap<string, ScopeNode> {
  const applying = new Map(parts.parameters.map((parameter) => [parameter.name, parameter]));
  return new Map(
    parts.bundle.parameters.map(({ name }) => {
      const parameter = applying.get(name);
      if (parameter === undefined)
        return [
          name,
          denied(`the parameter does not apply to ${parts.action}`, 'add the action to its applyTo'),
        ];
      // Porter: a parameter located at a path stands for the path, not for the content.
      if (parameter.path !== undefined && parameter.env === undefined) return [name, value(parameter.path)];
      if (!parameter.set) return [name, absent('the parameter was not given and has no default')];
      if (parameter.sensitive) return [name, secret(`parameter ${name}`)];
      return [name, parameter.value === undefined ? late(`parameter ${name}`) : value(parameter.value)];
    }),
  );
}

function credentialNodes(parts: PlanScopeParts): ReadonlyMap<string, ScopeNode> {
  const applying = new Map(parts.credentials.map((credential) => [credential.name, credential]));
  return new Map(
    parts.bundle.credentials.map(({ name }) => {
      const credential = applying.get(name);
      if (credential === undefined)
        return [
          name,
          denied(`the credential does not apply to ${parts.action}`, 'add the action to its applyTo'),
        ];
      if (credential.env === undefined && credential.path !== undefined)
        return [name, value(credential.path)];
      return [name, secret(`credential ${name}`)];
    }),
  );
}

function outputNodes(parts: PlanScopeParts): ReadonlyMap<string, ScopeNode> {
  const nodes = new Map<string, ScopeNode>();
  for (const output of parts.outputs) {
    nodes.set(
      output.name,
      output.sensitive ? secret(`output ${output.name}`) : late(`output ${output.name}`),
    );
  }
  for (const [name, { step, sensitive }] of parts.stepOutputs) {
    const label = `output ${name} of ${step}`;
    nodes.set(name, sensitive ? secret(label) : late(label));
  }
  return nodes;
}
