import type { Json } from '../document/index.ts';
import type { JsonObject, WiredOutput } from './cnab.ts';
import type { Bundle, Dependency } from './model.ts';

/** `custom` and `requiredExtensions` of bundle.json, in the order in which Porter writes them. */
export function customOf(
  bundle: Bundle,
  wired: readonly WiredOutput[],
): { readonly custom: JsonObject; readonly required: readonly string[] } {
  const extensions: Record<string, Json> = { 'sh.porter.file-parameters': {} };
  if (bundle.dependencies.length > 0)
    extensions['io.cnab.dependencies'] = dependenciesOf(bundle.dependencies);
  extensions['io.cnab.parameter-sources'] = sourcesOf(bundle, wired);
  for (const extension of bundle.required) {
    const name = EXTENSIONS[extension.name] ?? extension.name;
    extensions[name] = extension.config;
  }
  const own =
    bundle.invocationImages.length === 0
      ? {}
      : { 'dev.skycap': { invocationImages: bundle.invocationImages.map(({ name }) => name) } };
  return { custom: { ...bundle.custom, ...extensions, ...own }, required: Object.keys(extensions) };
}

/** Short names that Porter knows for extensions of the specification. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  docker: 'io.cnab.docker',
  dependencies: 'io.cnab.dependencies',
  'parameter-sources': 'io.cnab.parameter-sources',
  'file-parameters': 'sh.porter.file-parameters',
};

function dependenciesOf(dependencies: readonly Dependency[]): JsonObject {
  const requires = dependencies.map((dependency) => [
    dependency.name,
    {
      bundle: dependency.reference,
      ...(dependency.version === undefined
        ? {}
        : { version: { prereleases: /\d-/.test(dependency.version), ranges: [dependency.version] } }),
    },
  ]);
  return {
    requires: Object.fromEntries(requires),
    sequence: dependencies.map((dependency) => dependency.name),
  };
}

function sourcesOf(bundle: Bundle, wired: readonly WiredOutput[]): JsonObject {
  const own = bundle.parameters.flatMap((parameter) =>
    parameter.source === undefined ? [] : [[parameter.name, sourceOf(parameter.source)] as const],
  );
  const generated = wired.map((wire) => [wire.parameter, sourceOf(wire)] as const);
  return {
    ...Object.fromEntries(own),
    'porter-state': sourceOf({ output: 'porter-state' }),
    ...Object.fromEntries(generated),
  };
}

function sourceOf(source: { readonly output: string; readonly dependency?: string }): JsonObject {
  return source.dependency === undefined
    ? { priority: ['output'], sources: { output: { name: source.output } } }
    : {
        priority: ['dependencies.output'],
        sources: { 'dependencies.output': { dependency: source.dependency, name: source.output } },
      };
}
