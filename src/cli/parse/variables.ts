import type { Command, Flag } from '../types.ts';

/** `SKYCAP_DRY_RUN` for `--dry-run`; `SKYCAP_INSTALL_FORCE` for a flag of one command's own. */
export function variableOf(path: string, flag: Flag): string {
  const name = flag.own === true ? `${path} ${flag.name}` : flag.name;
  return `SKYCAP_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
}

export function variablesOf(command: Command, globals: readonly Flag[]): ReadonlyMap<string, Flag> {
  return new Map([...globals, ...command.flags].map((flag) => [variableOf(command.path, flag), flag]));
}
