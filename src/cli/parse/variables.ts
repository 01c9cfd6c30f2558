import type { Flag } from '../types.ts';

/** `SKYCAP_DRY_RUN` for `--dry-run`; `SKYCAP_INSTALL_FORCE` for a flag of one command's own. */
export function variableOf(path: string, flag: Flag): string {
  const name = flag.own === true ? `${path} ${flag.name}` : flag.name;
  return `SKYCAP_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
}
