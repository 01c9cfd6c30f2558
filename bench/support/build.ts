// What the benches run in processes of their own, built as it is shipped.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { buildSync } from 'esbuild';

const root = join(import.meta.dirname, '../..');

const PROGRAMS = ['pull-child', 'push-child', 'pack-child', 'root-child'] as const;

/** Run it once before what imports the library, which is then there, as are the programs of `childProgram`. */
export function buildLibrary(): void {
  execFileSync(process.execPath, [join(root, 'scripts/build.ts'), '--if-stale'], { stdio: 'inherit' });
  buildSync({
    entryPoints: PROGRAMS.map((name) => join(root, 'bench/support', `${name}.ts`)),
    outdir: join(root, 'dist/bench'),
    bundle: true,
    format: 'esm',
    platform: 'node',
  });
}

/** A program that uses the library in a process of its own, its types stripped beforehand as the library's are. */
export function childProgram(name: (typeof PROGRAMS)[number]): string {
  return join(root, 'dist/bench', `${name}.js`);
}
