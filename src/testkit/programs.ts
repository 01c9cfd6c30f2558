import { existsSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Whether programs are missing that `what` cannot be tested without; for `describe.skipIf`. Says so aloud, and is an
 * error where `SKYCAP_REQUIRE_ENGINES=1`.
 *
 * @param programs Name of each, and of the Debian package that has it.
 */
export function lacking(what: string, programs: Readonly<Record<string, string>>): boolean {
  const folders = (process.env.PATH ?? '').split(':');
  const missing = Object.keys(programs).filter(
    (program) => !folders.some((folder) => existsSync(join(folder, program))),
  );
  if (missing.length === 0) return false;
  const packages = [...new Set(missing.map((program) => programs[program]))].join(' ');
  const message = `${what} cannot be tested without ${missing.join(', ')}: apt-get install ${packages}`;
  if (process.env.SKYCAP_REQUIRE_ENGINES === '1') throw new Error(message);
  console.warn(`NOT TESTED: ${message}`);
  return true;
}
