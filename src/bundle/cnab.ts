import type { Json } from '../document/index.ts';
import { customOf } from './cnab-extensions.ts';
import { defined } from './invocation-images.ts';
import type { Bundle, Output, Parameter } from './model.ts';
import { defaultEnv } from './parameters.ts';
import { templateNames } from './template-names.ts';

export type JsonObject = { readonly [key: string]: Json };

const INTERNAL = 'Porter internal parameter that should not be set manually.';
const STATE_TEXT = `Supports persisting state for bundles. ${INTERNAL}`;
const ID = 'https://porter.sh/generated-bundle/#';

/** An output of an earlier run, or of a dependency, that a step reads: Porter hands it in as a parameter. */
export interface WiredOutput {
  readonly parameter: string;
  readonly output: string;
  readonly dependency?: string;
}

/**
 * The bundle as CNAB's bundle.json (cnab-spec 1.2, section 101), with the parameters and definitions that Porter
 * generates, so that programs which read Porter's bundle.json read ours. Porter's stamp (`sh.porter` with mixin
 * versions and its own commit) is left out: it would claim that Porter built the bundle. Invocation images become
 * entries of `images` and of `custom["dev.skycap"]`.
 */
export function toCnabBundle(bundle: Bundle): JsonObject {
  const wired = wiredOutputs(bundle);
  const actions = Object.fromEntries(
    bundle.customActions.map((action) => [
      action.name,
      defined({
        description: action.description || undefined,
        modifies: action.modifies || undefined,
        stateless: action.stateless || undefined,
      }) as JsonObject,
    ]),
  );
  const credentials = Object.fromEntries(
    bundle.credentials.map((credential) => [
      credential.name,
      defined({
        description: credential.description || undefined,
        env: credential.env,
        path: credential.path,
        required: credential.required || undefined,
        applyTo: nonEmptyList(credential.applyTo),
      }) as JsonObject,
    ]),
  );
  const images = imagesOf(bundle);
  const extensions = customOf(bundle, wired);
  return {
    schemaVersion: '1.2.0',
    name: bundle.name,
    version: bundle.version,
    description: bundle.description,
    ...(bundle.maintainers.length === 0
      ? {}
      : { maintainers: bundle.maintainers.map((person) => ({ name: '', ...person }) as JsonObject) }),
    invocationImages: [],
    ...(Object.keys(images).length === 0 ? {} : { images }),
    ...(Object.keys(actions).length === 0 ? {} : { actions }),
    ...(Object.keys(credentials).length === 0 ? {} : { credentials }),
    parameters: parametersOf(bundle, wired),
    outputs: outputsOf(bundle),
    definitions: definitionsOf(bundle, wired),
    requiredExtensions: extensions.required,
    custom: extensions.custom,
  };
}

function nonEmptyList(list: readonly string[]): readonly string[] | undefined {
  return list.length === 0 ? undefined : list;
}

function wiredOutputs(bundle: Bundle): readonly WiredOutput[] {
  const names = templateNames(bundle);
  const wired: WiredOutput[] = [];
  for (const output of bundle.outputs)
    if (names.has(`bundle.outputs.${output.name}`))
      wired.push({ parameter: `porter-${output.name}-output`, output: output.name });
  for (const name of names) {
    const match = /^bundle\.dependencies\.([^.]+)\.outputs\.(.+)$/.exec(name);
    const [, dependency, output] = match ?? [];
    if (dependency !== undefined && output !== undefined)
      wired.push({ parameter: `porter-${dependency}-${output}-dep-output`, output, dependency });
  }
  return wired;
}

function parametersOf(bundle: Bundle, wired: readonly WiredOutput[]): JsonObject {
  const own = bundle.parameters.map((parameter) => [parameter.name, parameterEntry(parameter)] as const);
  const generated = wired.map((wire) => [
    wire.parameter,
    {
      definition: wire.parameter,
      description: `Wires up the ${wire.dependency === undefined ? '' : `${wire.dependency} dependency `}${wire.output} output for use as a parameter. ${INTERNAL}`,
      destination: { env: defaultEnv(wire.parameter) },
    },
  ]);
  return {
    ...Object.fromEntries(own),
    'porter-debug': {
      definition: 'porter-debug-parameter',
      description: 'Print debug information from Porter when executing the bundle',
      destination: { env: 'PORTER_DEBUG' },
    },
    'porter-state': {
      definition: 'porter-state',
      description: STATE_TEXT,
      destination: { path: '/porter/state.tgz' },
    },
    ...Object.fromEntries(generated),
  };
}

function parameterEntry(parameter: Parameter): JsonObject {
  return defined({
    definition: definitionName(parameter.name, '-parameter'),
    description: parameter.description || undefined,
    destination: defined({ env: parameter.env, path: parameter.path }) as JsonObject,
    applyTo: nonEmptyList(parameter.applyTo),
    required: parameter.default === undefined ? true : undefined,
  }) as JsonObject;
}

/** Where an output lies when a run ends, whatever file it comes from. */
function outputsOf(bundle: Bundle): JsonObject {
  return {
    ...Object.fromEntries(
      bundle.outputs.map((output) => [
        output.name,
        defined({
          definition: definitionName(output.name, '-output'),
          description: output.description || undefined,
          path: `/cnab/app/outputs/${output.name}`,
          applyTo: nonEmptyList(output.applyTo),
        }) as JsonObject,
      ]),
    ),
    'porter-state': {
      definition: 'porter-state',
      description: STATE_TEXT,
      path: '/cnab/app/outputs/porter-state',
    },
  };
}

/** Porter's rule: the suffix is not doubled. */
function definitionName(name: string, suffix: '-parameter' | '-output'): string {
  return name.endsWith(suffix) ? name : `${name}${suffix}`;
}

function definitionOf(value: Parameter | Output): JsonObject {
  return {
    ...value.schema,
    ...(value.default === undefined ? {} : { default: value.default }),
    ...(value.sensitive ? { writeOnly: true } : {}),
  };
}

function definitionsOf(bundle: Bundle, wired: readonly WiredOutput[]): JsonObject {
  const generated = wired.map((wire) => {
    const output =
      wire.dependency === undefined ? bundle.outputs.find((one) => one.name === wire.output) : undefined;
    const marks = { $comment: 'porter-internal', $id: `${ID}porter-parameter-source-definition` };
    return [wire.parameter, { ...(output === undefined ? {} : definitionOf(output)), ...marks }] as const;
  });
  return {
    ...Object.fromEntries(
      bundle.parameters.map((one) => [definitionName(one.name, '-parameter'), definitionOf(one)]),
    ),
    ...Object.fromEntries(
      bundle.outputs.map((one) => [definitionName(one.name, '-output'), definitionOf(one)]),
    ),
    'porter-debug-parameter': {
      $comment: 'porter-internal',
      $id: `${ID}porter-debug`,
      default: false,
      description: 'Print debug information from Porter when executing the bundle',
      type: 'boolean',
    },
    'porter-state': {
      $comment: 'porter-internal',
      $id: `${ID}porter-state`,
      contentEncoding: 'base64',
      description: STATE_TEXT,
      type: 'string',
    },
    ...Object.fromEntries(generated),
  };
}

function imagesOf(bundle: Bundle): JsonObject {
  const referenced = bundle.images.map((image) => [
    image.key,
    defined({
      description: image.description ?? '',
      image: `${image.repository}${image.digest === undefined ? `:${image.tag ?? 'latest'}` : `@${image.digest}`}`,
      imageType: image.imageType ?? 'docker',
      contentDigest: image.digest,
      mediaType: image.mediaType,
      size: image.size === 0 ? undefined : image.size,
      labels: Object.keys(image.labels).length === 0 ? undefined : image.labels,
    }) as JsonObject,
  ]);
  const taken = new Set(bundle.images.map((image) => image.key));
  const invoked = bundle.invocationImages.flatMap((image) =>
    image.source.kind === 'registry'
      ? [
          [
            // An image of the application may have the same name.
            taken.has(image.name) ? `invocation.${image.name}` : image.name,
            { description: 'runs steps of this bundle', image: image.source.image, imageType: 'oci' },
          ] as const,
        ]
      : [],
  );
  return { ...Object.fromEntries(referenced), ...Object.fromEntries(invoked) };
}
