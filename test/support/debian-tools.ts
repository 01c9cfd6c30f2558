import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const cache = join(root, 'node_modules/.cache/skycap-debian');

/**
 * Root folder of an image with tools of Debian packages, made by `examples/tool-image.sh` and kept for the next test
 * run, like the packages that were downloaded.
 *
 * @param packages as that script takes them: `PACKAGE` or `PACKAGE:/PATH`
 */
export async function debianTools(name: string, ...packages: readonly string[]): Promise<string> {
  const folder = join(cache, name);
  if (existsSync(folder)) return folder;
  const work = join(cache, `${name}.${process.pid}`);
  mkdirSync(cache, { recursive: true });
  try {
    await run([join(root, 'examples/tool-image.sh'), work, ...packages]);
    renameSync(work, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return folder;
}

/** Not synchronously: registries of the tests live in this process. */
async function run(args: readonly string[]): Promise<void> {
  const child = spawn('sh', args, {
    env: { ...process.env, DEB_CACHE: join(cache, 'debs') },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  if (code !== 0) throw new Error(`examples/tool-image.sh ended with ${code}`);
}
