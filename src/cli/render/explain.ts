import type { Bundle, InvocationImage, Output, Parameter } from '../../bundle/index.ts';
import type { Json } from '../../document/index.ts';
import { cellOf } from './installation.ts';
import { properties, section, table } from './table.ts';

const everywhere = 'All Actions';

/** Porter's keys; `images`, `invocationImages` and `steps` are ours. */
export function explainJson(bundle: Bundle, action: string | undefined): Record<string, unknown> {
  const applies = appliesTo(action);
  const parameters = bundle.parameters.filter(applies).map(parameterJson);
  const credentials = bundle.credentials.filter(applies).map(({ name, description, required, applyTo }) => ({
    name,
    description,
    required,
    applyTo: applyText(applyTo),
  }));
  const outputs = bundle.outputs.filter(applies).map((output) => ({
    name: output.name,
    type: typeText(output),
    applyTo: applyText(output.applyTo),
    description: output.description,
    sensitive: output.sensitive,
  }));
  const actions = bundle.customActions.map(({ name, modifies, stateless, description }) => ({
    name,
    modifies,
    stateless,
    description,
  }));
  const dependencies = bundle.dependencies.map(({ name, reference }) => ({ alias: name, reference }));
  return {
    name: bundle.name,
    ...(bundle.description === '' ? {} : { description: bundle.description }),
    version: bundle.version,
    ...unlessEmpty('parameters', parameters),
    ...unlessEmpty('credentials', credentials),
    ...unlessEmpty('outputs', outputs),
    ...unlessEmpty('customActions', actions),
    ...unlessEmpty('dependencies', dependencies),
    mixins: bundle.mixins.map(({ name }) => name),
    ...(Object.keys(bundle.custom).length === 0 ? {} : { custom: bundle.custom }),
    ...unlessEmpty('invocationImages', bundle.invocationImages.map(imageJson)),
    ...unlessEmpty(
      'images',
      bundle.images.map(({ key, repository, tag, digest, description }) => ({
        name: key,
        repository,
        ...(tag === undefined ? {} : { tag }),
        ...(digest === undefined ? {} : { digest }),
        ...(description === undefined ? {} : { description }),
      })),
    ),
    steps: Object.fromEntries(
      [...bundle.actions]
        .filter(([name]) => action === undefined || name === action)
        .map(([name, steps]) => [
          name,
          steps.map((step) => ({
            id: step.id ?? `${name}[${step.index}]`,
            description: step.description.text,
            ...(step.body.kind === 'invoke' ? { image: step.body.image } : { mixin: step.body.mixin }),
          })),
        ]),
    ),
  };
}

function parameterJson(parameter: Parameter): Record<string, unknown> {
  return {
    name: parameter.name,
    type: typeText(parameter),
    default: parameter.sensitive ? null : (parameter.default ?? null),
    applyTo: applyText(parameter.applyTo),
    description: parameter.description,
    required: isRequired(parameter),
    sensitive: parameter.sensitive,
    injected: parameter.source !== undefined,
  };
}

function imageJson(image: InvocationImage): Record<string, unknown> {
  const { name, source, platform, network, docker, workspace, user } = image;
  return {
    name,
    ...(source.kind === 'registry'
      ? { image: source.image }
      : { [source.kind]: source.kind === 'build' ? source.context : `${source.file}#${source.name}` }),
    ...(platform === undefined ? {} : { platform }),
    network,
    workspace,
    docker,
    ...(user === undefined ? {} : { user }),
  };
}

export function explainText(bundle: Bundle, action: string | undefined): string {
  const applies = appliesTo(action);
  const parameters = bundle.parameters.filter(applies);
  const credentials = bundle.credentials.filter(applies);
  const outputs = bundle.outputs.filter(applies);
  const actions = [...bundle.actions].filter(([name]) => action === undefined || name === action);
  return [
    properties([
      ['Name', bundle.name],
      ['Description', bundle.description === '' ? undefined : bundle.description],
      ['Version', bundle.version],
    ]),
    rows(
      'Parameters',
      ['NAME', 'TYPE', 'DEFAULT', 'REQUIRED', 'APPLIES TO', 'DESCRIPTION'],
      parameters.map((p) => [
        p.name,
        typeText(p),
        p.source !== undefined
          ? '(injected)'
          : p.default === undefined
            ? ''
            : p.sensitive
              ? '(hidden)'
              : cellOf(p.default),
        String(isRequired(p)),
        applyText(p.applyTo),
        p.description,
      ]),
    ),
    rows(
      'Credentials',
      ['NAME', 'REQUIRED', 'APPLIES TO', 'DESCRIPTION'],
      credentials.map((c) => [c.name, String(c.required), applyText(c.applyTo), c.description]),
    ),
    rows(
      'Outputs',
      ['NAME', 'TYPE', 'SENSITIVE', 'APPLIES TO', 'DESCRIPTION'],
      outputs.map((o) => [o.name, typeText(o), String(o.sensitive), applyText(o.applyTo), o.description]),
    ),
    rows(
      'Actions',
      ['NAME', 'STEPS', 'MODIFIES', 'DESCRIPTION'],
      actions.map(([name, steps]) => {
        const custom = bundle.customActions.find((c) => c.name === name);
        return [name, String(steps.length), String(custom?.modifies ?? true), custom?.description ?? ''];
      }),
    ),
    rows(
      'Invocation images',
      ['NAME', 'FROM', 'NETWORK', 'DOCKER'],
      bundle.invocationImages.map((image) => [
        image.name,
        sourceText(image),
        image.network,
        image.docker ? 'wants the socket' : 'no',
      ]),
    ),
    rows(
      'Images',
      ['NAME', 'REPOSITORY', 'TAG OR DIGEST'],
      bundle.images.map((image) => [image.key, image.repository, image.digest ?? image.tag ?? '']),
    ),
    rows(
      'Dependencies',
      ['NAME', 'REFERENCE'],
      bundle.dependencies.map(({ name, reference }) => [name, reference]),
    ),
    bundle.mixins.length === 0 ? '' : `\nMixins: ${bundle.mixins.map(({ name }) => name).join(', ')}\n`,
    `\nInstall it with: ${installLine(bundle)}\n`,
  ].join('');
}

function rows(title: string, header: readonly string[], body: readonly (readonly string[])[]): string {
  return body.length === 0 ? '' : section(title, table(header, body));
}

/** The command with a place for everything that must be given. */
function installLine(bundle: Bundle): string {
  const applies = appliesTo('install');
  const parameters = bundle.parameters
    .filter((p) => applies(p) && isRequired(p))
    .map((p) => `--param ${p.name}=TODO`);
  const credentials = bundle.credentials
    .filter((c) => applies(c) && c.required)
    .map((c) => `--credential ${c.name}=env:TODO`);
  return ['skycap install', ...parameters, ...credentials].join(' ');
}

function appliesTo(action: string | undefined): (item: { readonly applyTo: readonly string[] }) => boolean {
  return ({ applyTo }) => action === undefined || applyTo.length === 0 || applyTo.includes(action);
}

function isRequired(parameter: Parameter): boolean {
  return parameter.default === undefined && parameter.source === undefined;
}

function applyText(applyTo: readonly string[]): string {
  return applyTo.length === 0 ? everywhere : applyTo.join(',');
}

function typeText(item: Pick<Parameter | Output, 'isFile' | 'schema'>): string {
  if (item.isFile) {
    return 'file';
  }
  const type: Json | undefined = item.schema.type;
  return Array.isArray(type) ? type.join('|') : typeof type === 'string' ? type : 'unknown';
}

function sourceText({ source }: InvocationImage): string {
  return source.kind === 'registry'
    ? source.image
    : source.kind === 'build'
      ? `build ${source.context}`
      : `bake ${source.file}#${source.name}`;
}

function unlessEmpty(key: string, list: readonly unknown[]): Record<string, unknown> {
  return list.length === 0 ? {} : { [key]: list };
}
