import { spawn } from 'node:child_process';
import { join } from 'node:path';

/** Everything that is checked without running a test: types, format and lint, rooms and arrows, promises, what is shipped. */
const root = join(import.meta.dirname, '..');
const modules = join(root, 'node_modules');

const checks: Readonly<Record<string, readonly string[]>> = {
  types: [join(modules, 'typescript/bin/tsc'), '--noEmit', '-p', root],
  format: [join(modules, '@biomejs/biome/bin/biome'), 'ci', '--colors=off', '--diagnostic-level=warn', root],
  lint: [join(modules, 'eslint/bin/eslint.js'), 'src', 'test', 'scripts', 'bench'],
  rooms: [
    join(modules, 'dependency-cruiser/bin/dependency-cruise.mjs'),
    'src',
    '--config',
    join(root, '.dependency-cruiser.cjs'),
  ],
  promises: [join(root, 'scripts/promises.ts')],
  errors: [join(root, 'scripts/error-tests.ts')],
  api: [join(root, 'scripts/api.ts'), '--check'],
  declarations: [join(root, 'scripts/types.ts'), '--check'],
};

const chosen = process.argv.slice(2);
const names = Object.keys(checks).filter((name) => chosen.length === 0 || chosen.includes(name));

/** What one says stands together, above its name. */
async function check(name: string): Promise<boolean> {
  const started = performance.now();
  const child = spawn(process.execPath, checks[name] as string[], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(chunk));
  const code = await new Promise<number>((resolve) => child.on('close', (status) => resolve(status ?? 1)));
  process.stdout.write(Buffer.concat(said));
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${code === 0 ? 'ok' : 'FAILED'}: ${name} (${seconds} s)`);
  return code === 0;
}

/** Two at a time; the slowest come first. */
const waiting = names.values();
async function lane(): Promise<void> {
  for (const name of waiting) if (!(await check(name))) process.exitCode = 1;
}
await Promise.all([lane(), lane()]);
