import type { Bundle, InvocationImage, Step } from '../bundle/index.ts';
import type { PlanCredential, PlanParameter, Visibility } from './types.ts';

/**
 * Who sees what (docs/bundle.md): plain parameters go to every step; credentials, sensitive parameters and sensitive
 * outputs to the steps that name them or, where a step names none, to those of the images that name them. What a
 * step's own expressions read is always added.
 */
export function visibility(
  step: Step,
  image: InvocationImage,
  context: {
    readonly bundle: Bundle;
    readonly parameters: readonly PlanParameter[];
    readonly credentials: readonly PlanCredential[];
    /** Paths such as `bundle.credentials.token`, as lists of names. */
    readonly reads: readonly (readonly string[])[];
  },
): Visibility {
  const { parameters, credentials, reads } = context;
  const read = (kind: string): readonly string[] =>
    reads.flatMap(([root, group, name]) =>
      root === 'bundle' && group === kind && name !== undefined ? [name] : [],
    );
  const environmentNames = new Set(
    reads.flatMap(([root, name]) => (root === 'env' && name !== undefined ? [name] : [])),
  );

  const namedCredentials = chosen(
    step.credentials ?? image.credentials ?? [],
    credentials.map((item) => item.name),
  );
  const seenCredentials = credentials
    .filter((item) => {
      if (namedCredentials.has(item.name) || read('credentials').includes(item.name)) return true;
      return item.env !== undefined && environmentNames.has(item.env);
    })
    .map((item) => item.name);

  const namedParameters = chosen(
    step.parameters ?? image.parameters ?? [],
    parameters.map((item) => item.name),
  );
  const seenParameters = parameters
    .filter((item) => {
      if (!item.sensitive || namedParameters.has(item.name) || read('parameters').includes(item.name))
        return true;
      return item.env !== undefined && environmentNames.has(item.env);
    })
    .map((item) => item.name);

  return {
    parameters: seenParameters,
    credentials: seenCredentials,
    outputs: [...new Set(read('outputs'))],
    inputs: step.inputs,
  };
}

function chosen(named: 'all' | readonly string[], all: readonly string[]): ReadonlySet<string> {
  return new Set(named === 'all' ? all : named);
}
