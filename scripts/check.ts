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
let failed = 0;
for (const [name, argv] of Object.entries(checks)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  const started = performance.now();
  const code = await new Promise<number>((resolve) => {
    spawn(process.execPath, argv, { cwd: root, stdio: 'inherit' }).on('close', (status) =>
      resolve(status ?? 1),
    );
  });
  console.log(
    `${code === 0 ? 'ok' : 'FAILED'}: ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`,
  );
  if (code !== 0) failed += 1;
}
process.exitCode = failed === 0 ? 0 : 1;
