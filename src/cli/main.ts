// The entry: `skycap version`, the commonest question, is answered here with nothing else loaded.
import { writeSync } from 'node:fs';
import { version } from './version.ts';

const plainFormats: readonly (string | undefined)[] = [undefined, '', 'text', 'plaintext'];

function isPlainVersion(argv: readonly string[]): boolean {
  return (
    argv.length === 1 &&
    ['version', '--version', '-v'].includes(argv[0] as string) &&
    plainFormats.includes(process.env.SKYCAP_OUTPUT) &&
    process.env.SKYCAP_SYSTEM === undefined
  );
}

if (isPlainVersion(process.argv.slice(2))) {
  writeSync(1, `skycap ${version}\n`);
} else {
  const { start } = await import('./process.ts');
  await start(process);
}
