import { isAbsolute, join } from 'node:path';
import { loadDocument, type Problem } from '../document/index.ts';
import { settingsError } from './errors.ts';
import { type FileOwner, readConfigFile } from './file.ts';
import { type ConfigFile, isNamespace, parseConfig } from './parse.ts';
import { mergeRules } from './registries.ts';
import { type FoundRule, readContainersRules } from './registries-conf.ts';
import { runtimeDirectoryOf } from './runtime.ts';
import type {
  CredentialSource,
  LoadedSettings,
  Origin,
  RegistryHost,
  RegistryRule,
  Settings,
  SettingsInput,
} from './types.ts';

const MACHINE_FILE = '/etc/skycap/config.yaml';

type SingleKey =
  | 'engine'
  | 'namespace'
  | 'stateDirectory'
  | 'storeDirectory'
  | 'cacheDirectory'
  | 'runtimeDirectory'
  | 'dockerHost';

/** Key of `config show` and variable of each value that stands alone. */
export const settingNames: Readonly<Record<SingleKey, { readonly key: string; readonly variable: string }>> =
  {
    engine: { key: 'engine', variable: 'SKYCAP_ENGINE' },
    namespace: { key: 'namespace', variable: 'SKYCAP_NAMESPACE' },
    stateDirectory: { key: 'state.directory', variable: 'SKYCAP_STATE_DIRECTORY' },
    storeDirectory: { key: 'store.directory', variable: 'SKYCAP_STORE_DIRECTORY' },
    cacheDirectory: { key: 'cache.directory', variable: 'SKYCAP_CACHE_DIRECTORY' },
    runtimeDirectory: { key: 'runtime.directory', variable: 'SKYCAP_RUNTIME_DIRECTORY' },
    dockerHost: { key: 'engines.docker.host', variable: 'SKYCAP_DOCKER_HOST' },
  };

/**
 * Flags win over variables, the user's file, the machine's file and defaults. Lists (registries, consents),
 * hosts and credentials of both files are joined; rules for registries of registries.conf come behind. Nothing is read from the working folder, and no path is relative to it
 * (docs/security.md, "Where power comes from").
 *
 * @throws SETTINGS_INVALID with every problem of the file, SETTINGS_OWNER, SETTINGS_UNREADABLE, SETTINGS_HOME
 */
export async function loadSettings(input: SettingsInput): Promise<LoadedSettings> {
  const machineFile = input.machineFile ?? MACHINE_FILE;
  const machine = await configFrom(machineFile, {
    owners: [0],
    hint: `run: chown root ${machineFile}`,
  });
  const userFile = join(xdg(input, 'XDG_CONFIG_HOME', '.config'), 'skycap', 'config.yaml');
  const user = await configFrom(userFile, {
    owners: [...new Set([input.uid, 0])],
    hint: 'it decides which commands run: make it yours',
  });
  const origins: Origin[] = [];
  const single = await singles(input, { user, machine, origins });
  const containers = await readContainersRules(input, findHome(input));
  const found = {
    user: [...foundIn(user), ...containers.user],
    machine: [...foundIn(machine), ...containers.machine],
  };
  const registries = mergeRules(found.user.map(ruleOf), found.machine.map(ruleOf));
  for (const rule of registries) {
    const source = rule.machine === true ? found.machine : found.user;
    const from = source.find((other) => other.rule.prefix === rule.prefix)?.file ?? '';
    origins.push({ key: `registries[${rule.prefix}]`, value: rule, from });
  }
  const hosts = new Map<string, RegistryHost>();
  for (const config of [machine, user]) {
    for (const [name, host] of Object.entries(config?.hosts ?? {}))
      hosts.set(name, hostWithHome(host, input));
  }
  for (const [name, value] of hosts) {
    const from = user !== undefined && Object.hasOwn(user.hosts, name) ? userFile : machineFile;
    origins.push({ key: `hosts.${name}`, value, from });
  }
  const consents = [...(machine?.consents ?? []), ...(user?.consents ?? [])];
  for (const [index, consent] of consents.entries()) {
    const from = index < (machine?.consents.length ?? 0) ? machineFile : userFile;
    origins.push({ key: `consents[${index}]`, value: consent, from });
  }
  const credentials = new Map<string, CredentialSource>();
  for (const config of [machine, user]) {
    for (const [name, source] of Object.entries(config?.credentials ?? {})) {
      credentials.set(name, withHome(source, input));
    }
  }
  for (const [name, source] of credentials) {
    const from = user !== undefined && Object.hasOwn(user.credentials, name) ? userFile : machineFile;
    origins.push({ key: `credentials.${name}`, value: shown(source), from });
  }
  const { helpers } = containers;
  if (helpers !== undefined)
    origins.push({ key: 'credential-helpers', value: helpers.names, from: helpers.file });
  const settings: Settings = {
    registries,
    hosts: Object.fromEntries(hosts),
    consents,
    credentials: Object.fromEntries(credentials),
    ...(helpers === undefined ? {} : { credentialHelpers: helpers.names }),
    ...(single.engine === undefined ? {} : { engine: single.engine }),
    ...(single.dockerHost === undefined ? {} : { dockerHost: single.dockerHost }),
    namespace: single.namespace ?? '',
    state: { directory: single.stateDirectory as string },
    store: { directory: single.storeDirectory as string },
    cacheDirectory: single.cacheDirectory as string,
    runtimeDirectory: single.runtimeDirectory as string,
  };
  return { settings, origins };
}

function foundIn(config: ConfigFile | undefined): readonly FoundRule[] {
  return (config?.registries ?? []).map((rule) => ({ rule, file: config?.file ?? '' }));
}

function ruleOf({ rule }: FoundRule): RegistryRule {
  return rule;
}

async function configFrom(file: string, owner: FileOwner): Promise<ConfigFile | undefined> {
  const text = await readConfigFile(file, owner);
  if (text === undefined) return undefined;
  const { parseYaml } = await loadDocument();
  const { config, problems } = parseConfig(parseYaml(text, { file }));
  const errors = problems.filter((problem) => problem.severity === 'error');
  // An excerpt of a file that holds credentials may be the very line with the value.
  if (errors.length > 0)
    throw invalid(file, text.includes('credentials') ? errors.map(withoutExcerpt) : errors);
  return config;
}

function withoutExcerpt(problem: Problem): Problem {
  const { excerpt: _, ...place } = problem.place;
  return { ...problem, place };
}

function invalid(file: string, problems: readonly Problem[]): Error {
  const [first] = problems as [Problem, ...Problem[]];
  const others = problems.slice(1).map((problem) => {
    const { line = 0, column = 0 } = problem.place;
    return `\n${file}:${line}:${column}: ${problem.message}${problem.hint === undefined ? '' : ` (${problem.hint})`}`;
  });
  return settingsError('SETTINGS_INVALID', `${first.message}${others.join('')}`, {
    place: first.place,
    ...(first.hint === undefined ? {} : { hint: first.hint }),
    details: { problems: problems.map(({ code, message, place }) => ({ code, message, place })) },
  });
}

interface Layers {
  readonly user: ConfigFile | undefined;
  readonly machine: ConfigFile | undefined;
  readonly origins: Origin[];
}

async function singles(input: SettingsInput, layers: Layers): Promise<Partial<Record<SingleKey, string>>> {
  const result: Partial<Record<SingleKey, string>> = {};
  for (const [name, { key, variable }] of Object.entries(settingNames) as [
    SingleKey,
    { key: string; variable: string },
  ][]) {
    const found =
      given(input.flags?.[name], 'a flag') ??
      given(input.env[variable], variable) ??
      given(layers.user?.[name], layers.user?.file ?? '') ??
      given(layers.machine?.[name], layers.machine?.file ?? '') ??
      (await defaultOf(name, input));
    if (found === undefined) continue;
    const value = name.endsWith('Directory') ? absolute(found.value, found.from, input) : found.value;
    if (name === 'namespace' && value !== '' && !isNamespace(value)) {
      throw settingsError('SETTINGS_INVALID', `${found.from}: ${JSON.stringify(value)} is no namespace`, {
        hint: 'use a-z, 0-9 and -, at most 63 characters',
      });
    }
    result[name] = value;
    layers.origins.push({ key, value, from: found.from });
  }
  return result;
}

interface Found {
  readonly value: string;
  readonly from: string;
}

function given(value: string | undefined, from: string): Found | undefined {
  return value === undefined || value === '' ? undefined : { value, from };
}

async function defaultOf(name: SingleKey, input: SettingsInput): Promise<Found | undefined> {
  if (name === 'engine') return undefined;
  // The Docker client's own variable, so that both programs mean the same daemon.
  if (name === 'dockerHost') return given(input.env.DOCKER_HOST, 'DOCKER_HOST');
  if (name === 'namespace') return { value: '', from: 'default' };
  if (name === 'runtimeDirectory') return await runtimeDirectoryOf(input);
  if (name === 'cacheDirectory') return place(input, 'XDG_CACHE_HOME', '.cache');
  const base = place(input, 'XDG_DATA_HOME', '.local/share');
  return { value: join(base.value, name === 'stateDirectory' ? 'state' : 'store'), from: base.from };
}

function place(input: SettingsInput, variable: string, fallback: string): Found {
  const from = isAbsolute(input.env[variable] ?? '') ? variable : 'default';
  return { value: join(xdg(input, variable, fallback), 'skycap'), from };
}

/** A relative value is ignored (XDG Base Directory Specification, "Environment variables"): it would mean the working folder. */
function xdg(input: SettingsInput, variable: string, fallback: string): string {
  const value = input.env[variable];
  return value !== undefined && isAbsolute(value) ? value : join(homeOf(input), fallback);
}

function findHome(input: SettingsInput): string | undefined {
  return [input.env.HOME, input.home].find((path) => path !== undefined && isAbsolute(path));
}

function homeOf(input: SettingsInput): string {
  const home = findHome(input);
  if (home !== undefined) return home;
  throw settingsError('SETTINGS_HOME', 'HOME is not set, and this account has no home folder', {
    hint: 'set HOME, or XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_CACHE_HOME, to absolute paths',
  });
}

function absolute(path: string, from: string, input: SettingsInput): string {
  if (path.startsWith('~/')) return join(homeOf(input), path.slice(2));
  if (isAbsolute(path)) return path;
  throw settingsError('SETTINGS_INVALID', `${from}: the folder ${JSON.stringify(path)} is not absolute`, {
    hint: 'settings never depend on the working folder: write the whole path',
  });
}

function withHome(source: CredentialSource, input: SettingsInput): CredentialSource {
  if (source.kind !== 'path' || !source.path.startsWith('~/')) return source;
  return { kind: 'path', path: join(homeOf(input), source.path.slice(2)) };
}

function hostWithHome(host: RegistryHost, input: SettingsInput): RegistryHost {
  const { realms, ...files } = host;
  const paths = Object.entries(files).map(([name, path]) => [
    name,
    path.startsWith('~/') ? join(homeOf(input), path.slice(2)) : path,
  ]);
  return { ...Object.fromEntries(paths), ...(realms === undefined ? {} : { realms }) };
}

function shown(source: CredentialSource): unknown {
  return source.kind === 'value' ? { kind: 'value', value: '(hidden)' } : source;
}
