import { didYouMean } from '../../document/index.ts';
import { usage } from '../errors.ts';
import type { CommandEntry } from '../types.ts';
import { globalFlags } from './globals.ts';

/** Porter's and common other names of groups and verbs, by canonical word. */
const synonyms: Readonly<Record<string, string>> = {
  installations: 'installation',
  inst: 'installation',
  bundles: 'bundle',
  images: 'image',
  outputs: 'output',
  runs: 'run',
  steps: 'step',
  registries: 'registry',
  log: 'logs',
  ls: 'list',
  credential: 'credentials',
  cred: 'credentials',
  creds: 'credentials',
  parameter: 'parameters',
  param: 'parameters',
  params: 'parameters',
  mixin: 'mixins',
  plugin: 'plugins',
  feeds: 'feed',
};

export interface Resolved {
  readonly entry: CommandEntry | undefined;
  /** Canonical words of the group or command that was found. */
  readonly path: string;
  /** The words as written that named it. */
  readonly words: readonly string[];
  /** All other words, in order: flags and arguments. */
  readonly rest: readonly string[];
}

/** Words that begin a command line of each depth, and where they lead. */
function routes(entries: readonly CommandEntry[]): Map<string, CommandEntry | undefined> {
  const map = new Map<string, CommandEntry | undefined>();
  for (const entry of entries) {
    for (const path of [entry.path, ...entry.aliases]) {
      const words = path.split(' ');
      for (let length = 1; length < words.length; length++) {
        const group = words.slice(0, length).join(' ');
        if (!map.has(group)) {
          map.set(group, undefined);
        }
      }
      map.set(path, entry);
    }
  }
  return map;
}

/** Does this global flag take the next word as its value? */
function takesNext(word: string): boolean {
  const flag = globalFlags.find(
    (f) => word === `--${f.name}` || (f.short !== undefined && word === `-${f.short}`),
  );
  return flag !== undefined && flag.type !== 'switch';
}

/**
 * Finds the command that a command line names; global flags may stand before and between its words.
 * @throws USAGE for a word that begins no command, with the nearest one that does
 */
export function resolveCommand(argv: readonly string[], entries: readonly CommandEntry[]): Resolved {
  const known = routes(entries);
  const words: string[] = [];
  const rest: string[] = [];
  let path = '';
  let index = 0;
  for (; index < argv.length; index++) {
    const word = argv[index] as string;
    if (word === '--') {
      break;
    }
    if (word.startsWith('-') && word !== '-') {
      rest.push(word);
      const next = argv[index + 1];
      if (takesNext(word) && next !== undefined) {
        rest.push(next);
        index++;
      }
      continue;
    }
    const candidate = path === '' ? (synonyms[word] ?? word) : `${path} ${synonyms[word] ?? word}`;
    if (!known.has(candidate)) {
      break;
    }
    path = candidate;
    words.push(word);
    if (known.get(candidate) !== undefined && !hasLonger(known, candidate)) {
      index++;
      break;
    }
  }
  rest.push(...argv.slice(index));
  return { entry: path === '' ? undefined : known.get(path), path, words, rest };
}

function hasLonger(known: ReadonlyMap<string, unknown>, path: string): boolean {
  return [...known.keys()].some((other) => other.startsWith(`${path} `));
}

/** The error for a line that names no command: what was meant, or what there is. */
export function unknownCommand(resolved: Resolved, entries: readonly CommandEntry[]): Error {
  const word = resolved.rest.find((item) => !item.startsWith('-'));
  const paths = entries.flatMap((entry) => [entry.path, ...entry.aliases]);
  const inGroup = paths.filter((path) => resolved.path === '' || path.startsWith(`${resolved.path} `));
  if (word === undefined) {
    return usage(
      `${JSON.stringify(resolved.path)} needs one of its commands`,
      `write one of: ${inGroup.map((path) => `skycap ${path}`).join(', ')}`,
    );
  }
  const typed = resolved.path === '' ? word : `${resolved.path} ${word}`;
  const near =
    didYouMean(typed, inGroup) ??
    didYouMean(word, new Set(inGroup.map((path) => path.split(' ')[0] as string)));
  return usage(
    `there is no command ${JSON.stringify(typed)}`,
    near === undefined ? 'run skycap help to see all commands' : `did you mean skycap ${near}?`,
  );
}
