// The entry: `skycap version`, the commonest question, is answered here with nothing else loaded.
import { writeSync } from 'node:fs';

/** As in version.ts, whose import would be one more file to load. */
const version = (globalThis as { __SKYCAP_VERSION__?: string }).__SKYCAP_VERSION__ ?? '0.0.0-source';

const plainFormats: readonly (string | undefined)[] = [undefined, '', 'text', 'plaintext'];

function isPlainVersion(argv: readonly string[]): boolean {
  return (
    argv.length === 1 &&
    ['version', '--version', '-v'].includes(argv[0] as string) &&
    plainFormats.includes(process.env.SKYCAP_OUTPUT) &&
    process.env.SKYCAP_SYSTEM === undefined
  );
}

/**
 * Keeps V8's compiled code from one start to the next, which saves a fifth of the time of `lint`. Where the folder
 * cannot be written, Node goes on without.
 */
function cacheCompiledCode(): void {
  const { SKYCAP_CACHE_DIRECTORY, XDG_CACHE_HOME, HOME } = process.env;
  const xdg =
    XDG_CACHE_HOME?.startsWith('/') === true
      ? XDG_CACHE_HOME
      : HOME === undefined
        ? undefined
        : `${HOME}/.cache`;
  const folder = SKYCAP_CACHE_DIRECTORY ?? (xdg === undefined ? undefined : `${xdg}/skycap`);
  // Below /proc no folder can be made, and Node tries for good.
  if (folder?.startsWith('/') === true && !/^\/(?:proc|sys)(?:\/|$)/.test(folder)) {
    // Code that we run: whatever the umask, nobody else may put any there.
    const umask = process.umask(0o077);
    process.getBuiltinModule('node:module').enableCompileCache(`${folder}/compiled`);
    process.umask(umask);
  }
}

/** False where it could not be written: the long way knows what to say. */
function writeVersion(): boolean {
  try {
    writeSync(1, `skycap ${version}\n`);
    return true;
  } catch {
    return false;
  }
}

if (!(isPlainVersion(process.argv.slice(2)) && writeVersion())) {
  cacheCompiledCode();
  const { start } = await import('./process.ts');
  await start(process);
}
