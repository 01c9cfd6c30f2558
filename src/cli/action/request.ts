import { dirname, join, resolve } from 'node:path';
import type { BundleSource, ParameterInput } from '../../installation/index.ts';
import { kernelError, notUtf8At } from '../../kernel/index.ts';
import { parseCredentialArgument } from '../../secrets/index.ts';
import type { ConsentFlags, CredentialSource } from '../../settings/index.ts';
import { bundleFile, pairs } from '../commands/common.ts';
import { MAX_INPUT_BYTES, readUserFile, upTo } from '../commands/input.ts';
import { notSupported, usage } from '../errors.ts';
import type { Context, Flags } from '../types.ts';

/** What the flags of an action say, files and standard input read. */
export interface ActionInputs {
  readonly source: BundleSource;
  readonly parameters: Readonly<Record<string, ParameterInput>>;
  readonly credentials: Readonly<Record<string, CredentialSource>>;
  readonly consents: ConsentFlags;
  readonly engine: string | undefined;
  readonly dryRun: boolean;
  readonly locked: boolean;
  readonly keep: boolean;
  readonly shell: boolean;
  readonly showLive: boolean;
  readonly graceMs: number | undefined;
  readonly alwaysGraceMs: number | undefined;
}

export async function readActionInputs(flags: Flags, context: Context): Promise<ActionInputs> {
  const file = await bundleFile(context, flags);
  const directory = dirname(file);
  const given = flags.given('file') ? flags.string('file') : undefined;
  const shell = flags.switch('shell');
  if (shell && !(context.host.stdin.isTerminal && context.host.stderr.isTerminal)) {
    throw usage('--shell needs a terminal', 'use --keep: it prints the command that opens the shell');
  }
  return {
    source: {
      file,
      directory,
      lockFile: join(directory, 'porter.lock'),
      ...(given === undefined ? {} : { given }),
    },
    parameters: await readParameters(flags, context),
    credentials: readCredentials(flags.list('credential')),
    consents: {
      ...consent('docker', flags.optional('allow-docker-host-access')),
      ...consent('hostNetwork', flags.optional('allow-host-network')),
      ...consent('privileged', flags.optional('allow-privileged')),
    },
    engine: engineOf(flags.string('engine')),
    dryRun: flags.switch('dry-run'),
    locked: flags.switch('locked'),
    keep: flags.switch('keep') || shell,
    shell,
    showLive: flags.switch('show-live'),
    graceMs: flags.duration('grace'),
    alwaysGraceMs: flags.duration('always-grace'),
  };
}

export function readLabels(flags: Flags): Readonly<Record<string, string>> {
  return pairs(flags.list('label'), '--label');
}

function consent(key: keyof ConsentFlags, images: readonly string[] | undefined): ConsentFlags {
  return images === undefined ? {} : { [key]: images.length === 0 ? true : images };
}

/** Porter's driver that runs nothing has another name here. */
function engineOf(name: string | undefined): string | undefined {
  if (name === 'debug') {
    throw notSupported('the driver debug', 'a dry run is no engine', 'use --dry-run');
  }
  return name;
}

/** Flags win over files, later ones over earlier ones. */
async function readParameters(flags: Flags, context: Context): Promise<Record<string, ParameterInput>> {
  // Names are anyone's: as an object's keys, `__proto__` would be no name.
  const parameters = new Map<string, ParameterInput>();
  for (const path of flags.list('params-file')) {
    for (const [name, value] of await readParametersFile(resolve(context.host.cwd, path), context.signal)) {
      parameters.set(name, value);
    }
  }
  for (const [name, text] of Object.entries(pairs(flags.list('param'), '--param'))) {
    parameters.set(name, await readParameter(name, text, context));
  }
  return Object.fromEntries(parameters);
}

async function readParameter(name: string, text: string, context: Context): Promise<ParameterInput> {
  if (text.startsWith('@@')) {
    return { kind: 'text', text: text.slice(1) };
  }
  if (text === '@-') {
    const tooMany = (): Error =>
      usage(
        `parameter ${name}: standard input has more than ${MAX_INPUT_BYTES >> 20} MiB, or no end`,
        'give less',
      );
    return { kind: 'bytes', bytes: await upTo(context.host.stdin.bytes(), tooMany, context.signal) };
  }
  if (text.startsWith('@')) {
    return {
      kind: 'bytes',
      bytes: await readUserFile(
        resolve(context.host.cwd, text.slice(1)),
        `parameter ${name}:`,
        context.signal,
      ),
    };
  }
  return { kind: 'text', text };
}

async function readParametersFile(
  file: string,
  signal: AbortSignal,
): Promise<readonly (readonly [string, ParameterInput])[]> {
  const { loadDocument, toJson } = await import('../../document/index.ts');
  const bytes = await readUserFile(file, 'parameters file', signal);
  const fault = notUtf8At(bytes);
  if (fault !== undefined) {
    throw kernelError('USAGE', 'the parameters file is no UTF-8 text', {
      hint: 'save it as UTF-8',
      place: { file, ...fault },
    });
  }
  const source = bytes.toString('utf8');
  const { root, problems } = (await loadDocument()).parseYaml(source, { file });
  const error = problems.find((problem) => problem.severity === 'error');
  if (error !== undefined) {
    throw kernelError('USAGE', `parameters file: ${error.message}`, {
      hint: error.hint ?? 'write one "NAME: VALUE" a line',
      place: error.place,
    });
  }
  if (root === undefined) {
    return [];
  }
  if (root.kind !== 'map') {
    throw kernelError('USAGE', 'the parameters file is no map of names to values', {
      hint: 'write one "NAME: VALUE" a line',
      place: { file, line: 1 },
    });
  }
  return root.entries.map(({ key, value }) => [key, { kind: 'json', value: toJson(value) }] as const);
}

function readCredentials(words: readonly string[]): Record<string, CredentialSource> {
  const entries = words
    .map((word) => parseCredentialArgument(word))
    .map(({ name, source }) => [name, source] as const);
  return Object.fromEntries(entries);
}
