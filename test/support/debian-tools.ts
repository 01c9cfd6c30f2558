import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const cache = join(root, 'node_modules/.cache/skycap-debian');

/**
 * Root folder of an image with tools of Debian packages, made by `examples/tool-image.sh` and kept for the next test
 * run, like the packages that were downloaded. One at a time: test files that run beside this one ask for the same.
 *
 * @param packages as that script takes them: `PACKAGE` or `PACKAGE:/PATH`
 */
export async function debianTools(name: string, ...packages: readonly string[]): Promise<string> {
  const folder = join(cache, name);
  if (existsSync(folder)) return folder;
  const work = join(cache, `${name}.${process.pid}`);
  mkdirSync(cache, { recursive: true });
  const script = '[ -e "$1" ] || { sh "$2" "$3" $4 && mv "$3" "$1"; }';
  const make = [script, 'sh', folder, join(root, 'examples/tool-image.sh'), work, packages.join(' ')];
  try {
    await run(['flock', join(cache, 'lock'), 'sh', '-c', ...make]);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return folder;
}

/** Not synchronously: registries of the tests live in this process. */
async function run([program = '', ...args]: readonly string[]): Promise<void> {
  const child = spawn(program, args, {
    env: { ...process.env, DEB_CACHE: join(cache, 'debs') },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  if (code !== 0) throw new Error(`examples/tool-image.sh ended with ${code}`);
}
