import { readdir } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import type { Problem } from '../document/index.ts';
import { settingsError } from './errors.ts';
import { readConfigFile } from './file.ts';
import { isAddress, PULL_FROM_MIRROR } from './parse-registries.ts';
import type { RegistryMirror, RegistryRule, SettingsInput } from './types.ts';

const MACHINE_FOLDER = '/etc/containers';

/** Rules of the files that podman, buildah and skopeo read, the ones that count first. */
export interface ContainersRules {
  readonly user: readonly FoundRule[];
  readonly machine: readonly FoundRule[];
  /** `credential-helpers` of the last file that names any. */
  readonly helpers?: FoundHelpers;
}

export interface FoundHelpers {
  readonly names: readonly string[];
  readonly file: string;
}

export interface FoundRule {
  readonly rule: RegistryRule;
  readonly file: string;
}

/**
 * containers-registries.conf(5) and containers-registries.conf.d(5): the user's file stands in place of the
 * machine's, a file that `CONTAINERS_REGISTRIES_CONF` names in place of both; drop-in files replace rules with the
 * same prefix. `[[registry]]` and `credential-helpers` are read: unqualified-search-registries and short names are not
 * used, since a reference here always means one place.
 *
 * @param home absolute path of the home folder, where there is one
 * @throws SETTINGS_INVALID, SETTINGS_OWNER, SETTINGS_UNREADABLE
 */
export async function readContainersRules(
  input: SettingsInput,
  home: string | undefined,
): Promise<ContainersRules> {
  const folder = input.containersFolder ?? MACHINE_FOLDER;
  const mine = home === undefined ? undefined : join(home, '.config', 'containers');
  const variable = input.env.CONTAINERS_REGISTRIES_CONF;
  const named = variable !== undefined && isAbsolute(variable) ? variable : undefined;
  const user = {
    owners: [...new Set([input.uid, 0])],
    hint: 'it decides where images come from: make it yours',
  };
  const said = new Map<string, FoundHelpers>();
  const read = async (file: string, hint?: string): Promise<readonly FoundRule[] | undefined> => {
    const owner = hint === undefined ? user : { owners: [0], hint };
    const text = await readConfigFile(file, owner);
    if (text === undefined) return undefined;
    const { rules, helpers } = await contentOf(text, file);
    if (helpers.length > 0) said.set(file, { names: helpers, file });
    return rules;
  };
  const dropIns = async (of: string, hint?: (file: string) => string): Promise<readonly FoundRule[]> => {
    const rules: FoundRule[] = [];
    for (const file of await filesIn(join(of, 'registries.conf.d'))) {
      rules.push(...((await read(file, hint?.(file))) ?? []));
    }
    return rules;
  };
  const rootOnly = (file: string): string => `run: chown root ${file}`;

  // In the order of the list the later file counts; a user's own drop-in files come last, whenever they were read.
  const helpersOf = (...folders: readonly (string | undefined)[]): { helpers?: FoundHelpers } => {
    const inFolder = (folder: string | undefined): readonly FoundHelpers[] =>
      [...said.values()].filter(({ file }) => dirname(file) === folder);
    const dropped = folders.flatMap((folder) =>
      folder === undefined ? [] : inFolder(join(folder, 'registries.conf.d')),
    );
    const main = [...said.values()].filter((found) => !dropped.includes(found));
    const last = [...main, ...dropped].at(-1);
    return last === undefined ? {} : { helpers: last };
  };

  const first = named ?? (mine === undefined ? undefined : join(mine, 'registries.conf'));
  const chosen = first === undefined ? undefined : await read(first);
  const ofUser = [...(chosen ?? []), ...(mine === undefined ? [] : await dropIns(mine))];
  if (chosen !== undefined && named === undefined)
    return { user: ofUser.reverse(), machine: [], ...helpersOf(mine) };
  const main = join(folder, 'registries.conf');
  const ofMachine = [
    ...(chosen === undefined ? ((await read(main, rootOnly(main))) ?? []) : []),
    ...(await dropIns(folder, rootOnly)),
  ];
  // Later files replace earlier ones, so the last rule of a prefix is the one that counts.
  return { user: ofUser.reverse(), machine: ofMachine.reverse(), ...helpersOf(folder, mine) };
}

async function filesIn(folder: string): Promise<readonly string[]> {
  try {
    const names = await readdir(folder);
    return names
      .filter((name) => name.endsWith('.conf'))
      .sort()
      .map((name) => join(folder, name));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw settingsError('SETTINGS_UNREADABLE', `${folder} cannot be read: ${code ?? 'unknown error'}`, {
      hint: 'mend its owner and mode, or remove it',
      place: { file: folder },
    });
  }
}

interface Content {
  readonly rules: readonly FoundRule[];
  readonly helpers: readonly string[];
}

async function contentOf(text: string, file: string): Promise<Content> {
  const { parse, TomlError } = await import('smol-toml');
  let value: Table;
  try {
    value = parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [first = 'it is not TOML'] = error.message.split('\n');
    throw wrong(
      { file, line: error.line, column: error.column },
      first.replace(/^Invalid TOML document: /, ''),
    );
  }
  const fail = (problem: string): never => {
    throw wrong({ file }, problem);
  };
  const rules = [
    ...tables(value.registry, 'registry', fail).map((entry) => ruleOf(entry, fail)),
    ...version1(value, fail),
  ];
  return { rules: rules.map((rule) => ({ rule, file })), helpers: helperNames(value, fail) };
}

/** What becomes part of a program's name: nothing that leads to another folder. */
const HELPER = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

function helperNames(value: Table, fail: Fail): readonly string[] {
  const names = value['credential-helpers'] ?? [];
  if (Array.isArray(names) && names.every((name) => typeof name === 'string' && HELPER.test(name)))
    return names as readonly string[];
  return fail('`credential-helpers` must be an array of names of helpers');
}

type Table = Readonly<Record<string, unknown>>;
type Fail = (problem: string) => never;

function wrong(place: Problem['place'], problem: string): Error {
  return settingsError('SETTINGS_INVALID', `${place.file}: ${problem}`, {
    place,
    hint: 'see containers-registries.conf(5)',
  });
}

function ruleOf(entry: Table, fail: Fail): RegistryRule {
  const location = text(entry, 'location', fail);
  const prefix = text(entry, 'prefix', fail) ?? location;
  if (prefix === undefined) return fail('a registry needs `prefix` or `location`');
  const digestOnly = flag(entry, 'mirror-by-digest-only', fail);
  const mirrors = tables(entry.mirror, 'mirror', fail).map((item): RegistryMirror => {
    const at = text(item, 'location', fail);
    if (at === undefined) return fail(`a mirror of ${prefix} needs \`location\``);
    const said = text(item, 'pull-from-mirror', fail);
    const kind = PULL_FROM_MIRROR.find((known) => known === (said ?? 'all'));
    if (kind === undefined) return fail(`\`pull-from-mirror\` is one of ${PULL_FROM_MIRROR.join(', ')}`);
    if (said !== undefined && digestOnly) {
      return fail(`${prefix} has both \`mirror-by-digest-only\` and \`pull-from-mirror\``);
    }
    return {
      location: address(at, fail),
      insecure: flag(item, 'insecure', fail),
      pullFromMirror: digestOnly ? 'digest-only' : kind,
    };
  });
  return {
    prefix: prefixOf(prefix, fail),
    ...(location === undefined ? {} : { location: address(location, fail) }),
    mirrors,
    insecure: flag(entry, 'insecure', fail),
    blocked: flag(entry, 'blocked', fail),
  };
}

/** The format before `[[registry]]`: lists of what is insecure and what is blocked. */
function version1(value: Table, fail: Fail): readonly RegistryRule[] {
  const lists = isTable(value.registries) ? value.registries : {};
  const names = (key: string): readonly string[] => {
    const list = isTable(lists[key]) ? lists[key].registries : [];
    return Array.isArray(list) ? list.filter((name): name is string => typeof name === 'string') : [];
  };
  const [insecure, blocked] = [names('insecure'), names('block')];
  return [...new Set([...insecure, ...blocked])].map((prefix) => ({
    prefix: prefixOf(prefix, fail),
    mirrors: [],
    insecure: insecure.includes(prefix),
    blocked: blocked.includes(prefix),
  }));
}

/** A prefix may name one tag or digest. */
function prefixOf(prefix: string, fail: Fail): string {
  const repository = prefix.replace(/@[a-z0-9]+:[0-9a-f]+$/, '').replace(/(\/[^/]*):[\w.-]+$/, '$1');
  return isAddress(repository, true)
    ? prefix
    : fail(`${JSON.stringify(prefix)} is no prefix of the form host[:port][/path] or *.host`);
}

function address(location: string, fail: Fail): string {
  const bare = location.replace(/\/+$/, '');
  return isAddress(bare, false)
    ? bare
    : fail(`${JSON.stringify(location)} is no location of the form host[:port][/path]`);
}

function text(table: Table, key: string, fail: Fail): string | undefined {
  const value = table[key];
  if (value === undefined || value === '') return undefined;
  return typeof value === 'string' ? value : fail(`\`${key}\` must be a string`);
}

function flag(table: Table, key: string, fail: Fail): boolean {
  const value = table[key] ?? false;
  return typeof value === 'boolean' ? value : fail(`\`${key}\` must be true or false`);
}

function tables(value: unknown, key: string, fail: Fail): readonly Table[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every(isTable)) return value;
  return fail(`\`${key}\` must be an array of tables: [[${key}]]`);
}

function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
